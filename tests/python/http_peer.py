"""An HTTP client that sends exactly the bytes it is told, and leaves as rudely as it is told."""

import json
import socket
import struct

PATIENCE_S = 60  # how long a test waits for what must come; never reached unless something is wrong


class ConnectionEnd(Exception):
    """The server closed the connection before the answer was whole."""


class Response:
    def __init__(self, status, headers, body=b""):
        self.status = status
        self.headers = headers  # names in lower case
        self.body = body

    def json(self):
        return json.loads(self.body)

    def error(self):
        """The four fields of an OpenAI error; raises unless it is one."""
        error = self.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}, error
        return error

    def events(self):
        """The data of the server-sent events in the body."""
        return [line[6:] for line in self.body.decode().split("\n") if line.startswith("data: ")]

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


def request_bytes(method, path, body=None, headers=None, chunked=False):
    """A whole request; a body that is no bytes is sent as JSON."""
    fields = {"Host": "test", **(headers or {})}
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    if body is not None and not any(name.lower() == "content-type" for name in fields):
        fields["Content-Type"] = "application/json"
    if body is not None and chunked:
        fields["Transfer-Encoding"] = "chunked"
        size = 1000 if len(body) < 100_000 else 65536
        pieces = [body[at:at + size] for at in range(0, len(body), size)]
        body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    elif body is not None:
        fields["Content-Length"] = str(len(body))
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return head.encode("latin-1") + b"\r\n" + (body or b"")


class Peer:
    """One connection. `address` is (host, port) or the path of a Unix socket."""

    def __init__(self, address, receive_buffer_bytes=None, timeout_s=PATIENCE_S):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        if receive_buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(timeout_s)
        try:
            self.socket.connect(address)
        except OSError:
            self.socket.close()
            raise
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, data):
        """False when the server has closed the connection: its answer may still be there to read."""
        try:
            self.socket.sendall(data)
            return True
        except (BrokenPipeError, ConnectionResetError):
            return False

    def request(self, method, path, body=None, headers=None, chunked=False):
        self.send(request_bytes(method, path, body, headers, chunked))
        return self.read_response(is_head=method == "HEAD")

    def read_head(self):
        """The head of the next final response."""
        while True:
            lines = self._take_until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            status = int(lines[0].split(" ")[1])
            headers = {}
            for line in lines[1:]:
                name, _, value = line.partition(":")
                if name:
                    headers[name.lower()] = value.strip()
            if status >= 200:
                return Response(status, headers)

    def read_response(self, is_head=False):
        response = self.read_head()
        if is_head or response.status == 204:
            return response
        if response.headers.get("transfer-encoding") == "chunked":
            while chunk := self.read_chunk():
                response.body += chunk
        elif "content-length" in response.headers:
            response.body = self._take(int(response.headers["content-length"]))
        else:
            response.body = self.read_to_end()
        return response

    def read_chunk(self):
        """One chunk of a chunked body; b"" for the last."""
        size = int(self._take_until(b"\r\n"), 16)
        return self._take(size + 2)[:size]

    def events(self):
        """The data of each event of a streamed answer, as it comes, to the end of the stream."""
        head = self.read_head()
        assert head.status == 200 and head.headers["content-type"].startswith("text/event-stream"), head
        text = b""
        while chunk := self.read_chunk():
            text += chunk
            while b"\n\n" in text:
                event, _, text = text.partition(b"\n\n")
                for line in event.split(b"\n"):
                    if line.startswith(b"data: "):
                        yield line[6:].decode()

    def read_to_end(self):
        while self._receive():
            pass
        data, self.received = self.received, b""
        return data

    def is_closed_by_server(self):
        """Waits for the end of the connection, whatever is still sent before."""
        try:
            self.read_to_end()
            return True
        except (ConnectionResetError, BrokenPipeError):
            return True
        except TimeoutError:
            return False

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with an RST instead of a FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _receive(self):
        data = self.socket.recv(65536)
        self.received += data
        return bool(data)

    def _take_until(self, mark):
        while mark not in self.received:
            if not self._receive():
                raise ConnectionEnd(f"after {self.received[:200]!r}")
        taken, _, self.received = self.received.partition(mark)
        return taken

    def _take(self, size):
        pieces = [self.received[:size]]
        self.received = self.received[size:]
        missing = size - len(pieces[0])
        while missing:
            data = self.socket.recv(min(missing, 1 << 20))
            if not data:
                raise ConnectionEnd(f"{missing} of {size} bytes are missing")
            pieces.append(data)
            missing -= len(data)
        return b"".join(pieces)
