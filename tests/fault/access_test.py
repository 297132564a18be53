#!/usr/bin/env python3
"""Who is let in, and what the log says of them.

    access_test.py BINARY [--sanitized] [unittest arguments]
"""

import json
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

from http_peer import ConnectionEnd, Peer, request_bytes  # noqa: E402
from server_process import MODEL, Server, completion, eventually, main  # noqa: E402

KEY = "correct-horse"
# What may be asked without a key: that the server is there, what it is, and how it is.
PUBLIC = {"/health", "/livez", "/readyz", "/ping", "/version", "/metrics", "/openapi.json", "/"}
WRONG = ["", "Bearer", "Bearer ", "Bearer x", f"Bearer {KEY}x", f"Bearer {KEY[:-1]}", f"Bearer {KEY.upper()}",
         f"Basic {KEY}", KEY, f"Bearer{KEY}", f"Bearer {KEY} {KEY}", f"Bearer {KEY}, Bearer {KEY}", f"Bearer \xff{KEY}",
         "Bearer " + "x" * 10_000]


class ApiKeys(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--api-key", KEY, "--api-key", "another"))
        cls.routes = json.loads(cls.server.request("GET", "/openapi.json").body)["paths"]

    def ask(self, method, path, authorization=None, **headers):
        fields = {} if authorization is None else {"Authorization": authorization}
        body = {} if method == "POST" else None
        return self.server.request(method, re.sub(r"{\w+}", MODEL, path), body, {**fields, **headers})

    def test_every_route_but_the_public_ones_asks_for_a_key(self):
        guarded = 0
        for path, methods in self.routes.items():
            for method in methods:
                status = self.ask(method.upper(), path).status
                if path in PUBLIC:
                    self.assertNotEqual(status, 401, path)
                    continue
                guarded += 1
                self.assertEqual(status, 401, f"{method} {path}")
                for authorization in WRONG:
                    self.assertIn(self.ask(method.upper(), path, authorization).status, (400, 401),
                                  f"{method} {path} {authorization[:40]}")
                for key in (KEY, "another"):
                    self.assertNotEqual(self.ask(method.upper(), path, f"Bearer {key}").status, 401, path)
        self.assertGreater(guarded, 6)
        print(f"  {guarded} guarded, {len(self.routes)} paths in all")

    def test_routes_that_every_client_knows_are_described_and_guarded(self):
        for path in ("/v1/completions", "/v1/chat/completions", "/v1/models", "/tokenize", "/detokenize", "/generate",
                     "/server_info", "/model_info", "/flush_cache", "/reset_prefix_cache", "/abort_request"):
            self.assertIn(path, self.routes)
            self.assertNotIn(path, PUBLIC)

    def test_a_refusal_is_an_openai_error(self):
        response = self.ask("POST", "/v1/chat/completions")
        self.assertEqual(response.error()["code"], "invalid_api_key")
        self.assertEqual(response.headers["www-authenticate"].split(" ")[0], "Bearer")

    def test_a_refusal_comes_before_the_body(self):
        with self.server.peer() as peer:
            peer.send(b"POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n"
                      b"Content-Length: 60000000\r\n\r\n{")
            self.assertEqual(peer.read_response().status, 401)

    def test_no_spelling_of_a_path_gets_around_the_key(self):
        for target in ("/v1//models", "//v1/models", "/v1/models/", "/v1/./models", "/health/../v1/models",
                       "/v1/%6dodels", "/%76%31/models", "/V1/models", "/v1/models?x=/health", "/v1/models%00/health",
                       "http://test/v1/models", "http://health/v1/models"):
            for host in ("test", "test/health", "health?x=", "a#"):
                with self.server.peer() as peer:
                    peer.send(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
                    response = peer.read_response()
                self.assertIn(response.status, (400, 401, 404), f"{target} {host}: {response}")

    def test_two_authorizations_are_not_taken(self):
        with self.server.peer() as peer:
            peer.send(f"GET /v1/models HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer x\r\n"
                      f"Authorization: Bearer {KEY}\r\n\r\n".encode())
            self.assertIn(peer.read_response().status, (400, 401))

    def test_the_key_is_nowhere_in_the_log(self):
        self.ask("GET", "/v1/models", f"Bearer {KEY}")
        self.assertFalse(any(KEY in line or "another" in line for line in self.server.lines), self.server.lines)


class Origins(unittest.TestCase):
    def test_a_json_list_means_its_origins(self):
        # As vLLM spells it. The list was one origin, which nobody has.
        for given, allowed in ((["*"], "*"), (["http://b", "http://A:80"], "http://a")):
            with Server("--allowed-origins", json.dumps(given)) as server:
                response = server.request("GET", "/health", headers={"Origin": "http://a"})
                self.assertEqual(response.headers.get("access-control-allow-origin"), allowed)


HOSTILE = ["x\nfake line", "x\r\n2026-01-01T00:00:00.000Z ERROR forged", "x\x1b[31mred", "x\0y", "x\u2028y", "x\u202ey",
           "x\x9b31m", 'x" status=200 y="', "x status=200", '","level":"error","z":"', "\\", "x" * 5000, "\x7f\x08\x08"]


class LogLines(unittest.TestCase):
    """Whatever is in a request, a line of the log is a line, and a field is a field."""

    def logged(self, log_format):
        """The lines that a server writes when hostile texts come in every place that it may log."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "log")
            with Server("--log-file", path, "--log-format", log_format, "--log-level", "debug",
                        "--enable-log-requests", uds=True) as server:
                for text in HOSTILE:
                    self.send_everywhere(server, text)
                server.complete()
                self.assertEqual(server.stop(), 0)
            return path.read_bytes()

    def send_everywhere(self, server, text):
        for fields in ({"model": text}, {"user": text}, {"prompt": text, "max_tokens": 1}, {text: 1}, {"stop": text}):
            server.complete(**fields)
        raw = text.encode("utf-8", "surrogatepass").replace(b"\n", b"\t").replace(b"\r", b"\t").replace(b"\0", b"\t")
        for head in (b"X-Request-Id: " + raw, b"User-Agent: " + raw, b"X-Forwarded-For: " + raw, b"Host: " + raw):
            self.send_raw(server, b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + head + b"\r\nConnection: close\r\n\r\n")
        self.send_raw(server, b"GET /" + raw + b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        percent = "".join(f"%{byte:02x}" for byte in text.encode()[:500])
        self.send_raw(server, f"GET /v1/models/{percent} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())

    @staticmethod
    def send_raw(server, data):
        try:
            with Peer(server.address) as peer:
                peer.send(data)
                peer.read_to_end()
        except (ConnectionEnd, ConnectionError):
            pass

    def check_harmless(self, data):
        text = data.decode("utf-8")  # raises where it is none
        lines = text.split("\n")
        self.assertEqual(lines.pop(), "")
        self.assertGreater(len(lines), 10)
        for line in lines:
            self.assertFalse(re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]", line), line)
            self.assertLess(len(line), 4096)
        return lines

    def test_lines_of_text_are_lines(self):
        for line in self.check_harmless(self.logged("text")):
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (DEBUG|INFO|WARNING|ERROR) ")

    def test_lines_of_json_are_objects_of_the_same_fields(self):
        for line in self.check_harmless(self.logged("json")):
            fields = json.loads(line)
            self.assertLessEqual({"time", "level", "message"}, set(fields))
            self.assertIn(fields["level"], ("debug", "info", "warning"), line)
            self.assertTrue(all(re.fullmatch(r"[a-z0-9_]+", key) for key in fields), line)
            self.assertNotIn("z", fields)

    def test_a_request_has_a_line_with_its_id_and_outcome(self):
        with Server("--enable-log-requests", "--log-format", "json") as server:
            server.request("POST", "/v1/completions", completion(), {"X-Request-Id": "find-me"})
            found = eventually(lambda: [line for line in server.lines if "find-me" in line], what="the request's line")
            self.assertEqual([json.loads(line)["outcome"] for line in found], ["finished"])

    def test_a_refused_request_has_one_line_that_says_why(self):
        cases = [
            ({"model": "none-such", "prompt": "x"}, 404, "model"),
            ({**completion(), "temperature": -1}, 400, "temperature"),
            ({**completion(), "prompt": "x " * 5000, "max_tokens": 1}, 400, None),
            ({**completion(), "max_tokens": 10**6}, 400, None),
        ]
        with Server("--enable-log-requests", "--log-format", "json") as server:
            for number, (body, status, param) in enumerate(cases):
                mark = f"refused-{number}"
                response = server.request("POST", "/v1/completions", body, {"X-Request-Id": mark})
                self.assertEqual(response.status, status)
                error = json.loads(response.body)["error"]
                eventually(lambda: [line for line in server.lines if mark in line], what="the refusal's line")
                lines = [json.loads(line) for line in server.lines if mark in line]
                self.assertEqual(len(lines), 1, lines)
                line = lines[0]
                self.assertEqual(
                    (line["level"], line["outcome"], line["status"], line["code"], line.get("param")),
                    ("info", "refused", status, error["code"], error["param"]), line)
                self.assertEqual(param or error["param"], error["param"])
            with server.peer() as peer:
                response = peer.request("POST", "/v1/completions", b"{", {
                    "X-Request-Id": "no-type", "Content-Type": "text/plain"})
            self.assertEqual(response.status, 415)
            line = json.loads(eventually(lambda: [line for line in server.lines if "no-type" in line],
                                         what="the refusal's line")[0])
            self.assertEqual((line["status"], line["outcome"]), (415, "refused"))

    def test_a_wrong_key_has_a_line_where_calls_have_one(self):
        with Server("--enable-log-requests", "--log-format", "json", "--api-key", KEY) as server:
            for mark, path in (("not-a-call", "/tokenize"), ("a-call", "/generate")):
                response = server.request("POST", path, {}, {"X-Request-Id": mark})
                self.assertEqual(response.status, 401)
            found = eventually(lambda: [line for line in server.lines if '"a-call"' in line], what="the refusal's line")
            fields = json.loads(found[0])
            self.assertEqual((fields["outcome"], fields["status"], fields["code"], fields["path"]),
                             ("refused", 401, "invalid_api_key", "/generate"))
            self.assertFalse([line for line in server.lines if "not-a-call" in line])

    def test_refused_requests_have_no_line_unless_asked_for(self):
        with Server("--log-format", "json") as server:
            response = server.request("POST", "/v1/completions", {"model": "none-such"}, {"X-Request-Id": "quiet-1"})
            self.assertGreaterEqual(response.status, 400)
            server.request("POST", "/v1/completions", completion())
            self.assertFalse([line for line in server.lines if "quiet-1" in line])

    def test_request_ids_that_could_hurt_are_replaced(self):
        with Server() as server:
            for given in ("a b", "a\tb", "x" * 129, "é", '"', "{}", "a;b", "$(id)"):
                data = b"GET /version HTTP/1.1\r\nHost: x\r\nX-Request-Id: " + given.encode() + b"\r\n\r\n"
                with server.peer() as peer:
                    peer.send(data)
                    response = peer.read_response()
                self.assertEqual(response.status, 200)
                self.assertRegex(response.headers["x-request-id"], r"^[A-Za-z0-9._-]{1,128}$")
                self.assertNotEqual(response.headers["x-request-id"], given)
            with server.peer() as peer:
                response = peer.request("GET", "/version", headers={"X-Request-Id": "mine-1"})
            self.assertEqual(response.headers["x-request-id"], "mine-1")


if __name__ == "__main__":
    main()
