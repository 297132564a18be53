#include "http/client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/un.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include "base/clock.h"
#include "http/characters.h"
#include "http/transport.h"
#include "http/unique_fd.h"

namespace millrace::http {
namespace {

namespace beast_http = boost::beast::http;
using ResponseParser = beast_http::response_parser<beast_http::string_body>;

constexpr size_t kReadBytes = size_t{64} << 10;

Error connection_error(std::string_view what) {
  return invalid_argument(fmt::format("{}: {}", what, std::strerror(errno)));
}

struct AddressInfoFree {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};

std::string serialize(const ClientRequest& request, const BaseUrl& url) {
  std::string bytes = fmt::format(
      "{} {}{} HTTP/1.1\r\nhost: {}\r\n", request.method, url.path, request.path, url.host_field()
  );
  for (const Header& header : request.headers) {
    bytes += fmt::format("{}: {}\r\n", header.name, header.value);
  }
  if (!request.body.empty()) bytes += fmt::format("content-type: {}\r\n", request.content_type);
  if (!request.body.empty() || request.method == "POST") {
    bytes += fmt::format("content-length: {}\r\n", request.body.size());
  }
  return bytes.append("\r\n").append(request.body);
}

// Nothing in a request may end a line early.
Result<void> check_request(const ClientRequest& request) {
  const auto is_clean = [](std::string_view text) {
    return std::all_of(text.begin(), text.end(), is_field_char);
  };
  const auto is_word = [](std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), is_visible);
  };
  if (!is_word(request.method) || !request.path.starts_with('/') || !is_word(request.path) ||
      !is_clean(request.content_type)) {
    return invalid_argument("the method, path or content type is malformed");
  }
  for (const Header& header : request.headers) {
    if (!is_word(header.name) || !is_clean(header.value)) {
      return invalid_argument("a header field is malformed", "headers");
    }
  }
  return {};
}

}  // namespace

std::optional<std::string_view> ClientResponse::header(std::string_view name) const {
  for (const Header& field : headers) {
    if (equals_ignoring_case(field.name, name)) return field.value;
  }
  return std::nullopt;
}

using OnEvent = std::function<bool(const SseEvent&)>;

struct HttpClient::Impl {
  BaseUrl url;
  ClientOptions options;
  std::optional<TlsContext> tls;
  UniqueFd cancel_event;
  UniqueFd socket;
  std::unique_ptr<Transport> transport;  // of `socket`
  std::array<char, kReadBytes> buffer;

  void disconnect() {
    transport.reset();
    socket.reset();
  }

  Result<void> wait(int fd, short events, TimePoint deadline) const;
  Result<UniqueFd> connect_to(const sockaddr* name, socklen_t size) const;
  Result<UniqueFd> connect_tcp(const TcpAddress& address) const;
  Result<UniqueFd> connect_unix(const UnixAddress& address) const;
  Result<void> connect();
  Result<void> send(std::string_view bytes);
  Result<std::string_view> receive();
  Result<ClientResponse> exchange(const ClientRequest& request, const OnEvent* on_event);
  Result<ClientResponse> run(const ClientRequest& request, const OnEvent* on_event);
};

// Until the descriptor is ready, the deadline passes or cancel() is called.
Result<void> HttpClient::Impl::wait(int fd, short events, TimePoint deadline) const {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return Error{ErrorCode::kDeadlineExceeded, "the server did not answer in time"};
    std::array<pollfd, 2> entries = {{
        {.fd = fd, .events = events, .revents = 0},
        {.fd = cancel_event.get(), .events = POLLIN, .revents = 0},
    }};
    const int timeout_ms = static_cast<int>(std::min<int64_t>(left, 1 << 30));
    const int rc = ::poll(entries.data(), entries.size(), timeout_ms);
    if (rc < 0 && errno != EINTR) return connection_error("cannot wait");
    if (rc <= 0) continue;
    if (entries[1].revents != 0) {
      uint64_t count = 0;
      if (::read(cancel_event.get(), &count, sizeof count) < 0) continue;
      return Error{ErrorCode::kCancelled, "the request was cancelled"};
    }
    if (entries[0].revents != 0) return {};
  }
}

Result<UniqueFd> HttpClient::Impl::connect_to(const sockaddr* name, socklen_t size) const {
  const int rc = ::socket(name->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (rc < 0) return connection_error("cannot make a socket");
  UniqueFd fd(rc);
  if (::connect(fd.get(), name, size) == 0) return fd;
  if (errno != EINPROGRESS) return connection_error("cannot connect");
  Result<void> ready = wait(fd.get(), POLLOUT, Clock::now() + options.connect_timeout);
  if (!ready) return ready.error();
  socklen_t error_size = sizeof errno;
  ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &errno, &error_size);
  if (errno != 0) return connection_error("cannot connect");
  return fd;
}

Result<UniqueFd> HttpClient::Impl::connect_tcp(const TcpAddress& address) const {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int rc = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (rc != 0) {
    return not_found(
        fmt::format("cannot resolve the host: {}", gai_strerror(rc)), to_string(address)
    );
  }
  const std::unique_ptr<addrinfo, AddressInfoFree> info(found);
  Result<UniqueFd> fd = connect_to(info->ai_addr, info->ai_addrlen);
  // A name may stand for several addresses ("localhost" for ::1 and 127.0.0.1).
  for (const addrinfo* next = info->ai_next; !fd && next != nullptr; next = next->ai_next) {
    if (fd.error().code == ErrorCode::kCancelled) break;
    fd = connect_to(next->ai_addr, next->ai_addrlen);
  }
  if (fd) {
    const int on = 1;
    static_cast<void>(::setsockopt(fd->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  }
  return fd;
}

Result<UniqueFd> HttpClient::Impl::connect_unix(const UnixAddress& address) const {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (address.path.size() >= sizeof name.sun_path) {
    return invalid_argument("the path of the Unix socket is too long", address.path);
  }
  std::copy(address.path.begin(), address.path.end(), name.sun_path);
  return connect_to(reinterpret_cast<const sockaddr*>(&name), sizeof name);
}

Result<void> HttpClient::Impl::connect() {
  const auto* tcp = std::get_if<TcpAddress>(&url.address);
  Result<UniqueFd> fd =
      tcp != nullptr ? connect_tcp(*tcp) : connect_unix(*std::get_if<UnixAddress>(&url.address));
  if (!fd) {
    Error error = fd.error();
    error.where = to_string(url.address);
    return error;
  }
  socket = std::move(*fd);
  transport = tls ? tls->connect(socket.get(), tcp->host) : make_plain_transport(socket.get());
  if (transport == nullptr) return Error{ErrorCode::kInternal, "OpenSSL does not start"};
  return {};
}

Result<void> HttpClient::Impl::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const IoResult result = transport->write({&bytes, 1});
    if (result.status == IoStatus::kDone) {
      bytes.remove_prefix(result.num_bytes);
    } else if (result.status == IoStatus::kWantRead || result.status == IoStatus::kWantWrite) {
      const short events = result.status == IoStatus::kWantRead ? POLLIN : POLLOUT;
      const TimePoint deadline = Clock::now() + options.idle_timeout;
      if (Result<void> ready = wait(socket.get(), events, deadline); !ready) return ready;
    } else {
      return invalid_argument("the connection failed while sending");
    }
  }
  return {};
}

// What came next; empty at the end of the connection. Valid until the next call.
Result<std::string_view> HttpClient::Impl::receive() {
  const TimePoint deadline = Clock::now() + options.idle_timeout;
  while (true) {
    const IoResult result = transport->read(buffer);
    if (result.status == IoStatus::kDone) {
      return std::string_view(buffer.data(), result.num_bytes);
    }
    if (result.status == IoStatus::kEnd) return std::string_view();
    if (result.status == IoStatus::kFailed) {
      return invalid_argument("the connection failed while receiving");
    }
    const short events = result.status == IoStatus::kWantRead ? POLLIN : POLLOUT;
    if (Result<void> ready = wait(socket.get(), events, deadline); !ready) return ready.error();
  }
}

namespace {

// One response, fed with bytes.
class ResponseReader {
 public:
  ResponseReader(const ClientOptions& options, bool is_head, const OnEvent* on_event)
      : options_(options), is_head_(is_head), on_event_(on_event) {
    start();
  }

  bool is_done() const { return is_done_; }
  bool has_started() const { return has_started_; }
  // Whether the connection can take another request.
  bool is_keep_alive() const { return is_done_ && is_keep_alive_ && pending_.empty(); }
  ClientResponse take() { return std::move(response_); }

  Result<void> feed(std::string_view bytes) {
    has_started_ = true;
    pending_.append(bytes);
    while (!is_done_ && !pending_.empty()) {
      boost::system::error_code error;
      const size_t num_used = parser_->put(boost::asio::buffer(pending_), error);
      pending_.erase(0, num_used);
      if (error == beast_http::error::need_more) error = {};
      if (error) return parse_error(error);
      if (parser_->is_header_done()) {
        if (Result<void> taken = take_body(); !taken) return taken;
      }
      if (!is_done_ && num_used == 0) break;
    }
    return {};
  }

  // The connection has ended; that is also how some bodies end.
  Result<void> end() {
    boost::system::error_code error;
    if (!is_done_ && parser_->is_header_done()) parser_->put_eof(error);
    if (error || !parser_->is_header_done()) {
      return invalid_argument("the server closed the connection before its answer was complete");
    }
    if (Result<void> taken = take_body(); !taken) return taken;
    is_keep_alive_ = false;
    return {};
  }

 private:
  void start() {
    parser_.emplace();
    parser_->eager(true);
    parser_->header_limit(static_cast<uint32_t>(options_.head_bytes_max));
    parser_->body_limit(options_.body_bytes_max);
    if (is_head_) parser_->skip(true);
  }

  static Error parse_error(const boost::system::error_code& error) {
    const bool is_too_large =
        error == beast_http::error::body_limit || error == beast_http::error::header_limit;
    return {
        is_too_large ? ErrorCode::kResourceExhausted : ErrorCode::kInvalidArgument,
        fmt::format("the server's answer cannot be read: {}", error.message()),
    };
  }

  Result<void> take_body() {
    auto& message = parser_->get();
    if (message.result_int() < 200 && parser_->is_done()) {
      start();  // 100 Continue and its like: the answer follows
      return {};
    }
    if (response_.status == 0) take_head();
    if (is_events_) {
      std::vector<SseEvent> events;
      if (Result<void> read = sse_.feed(message.body(), events); !read) return read;
      message.body().clear();
      for (const SseEvent& event : events) {
        if ((*on_event_)(event)) continue;
        is_done_ = true;
        is_keep_alive_ = false;
        return {};
      }
    }
    if (!parser_->is_done()) return {};
    is_done_ = true;
    is_keep_alive_ = parser_->keep_alive();
    if (!is_events_) response_.body = std::move(message.body());
    return {};
  }

  void take_head() {
    const auto& message = parser_->get();
    response_.status = static_cast<int>(message.result_int());
    for (const auto& field : message) {
      response_.headers.push_back({std::string(field.name_string()), std::string(field.value())});
    }
    const std::string_view type = response_.header("content-type").value_or("");
    is_events_ = on_event_ != nullptr && response_.status == 200 &&
                 equals_ignoring_case(type.substr(0, 17), "text/event-stream");
  }

  const ClientOptions& options_;
  const bool is_head_;
  const OnEvent* on_event_;
  std::optional<ResponseParser> parser_;
  std::string pending_;
  SseReader sse_;
  ClientResponse response_;
  bool has_started_ = false;
  bool is_events_ = false;
  bool is_done_ = false;
  bool is_keep_alive_ = false;
};

}  // namespace

Result<ClientResponse> HttpClient::Impl::exchange(
    const ClientRequest& request, const OnEvent* on_event
) {
  const std::string bytes = serialize(request, url);
  for (bool is_kept = transport != nullptr;; is_kept = false) {
    if (!is_kept) {
      if (Result<void> connected = connect(); !connected) return connected.error();
    }
    ResponseReader reader(options, request.method == "HEAD", on_event);
    Result<void> result = send(bytes);
    while (result && !reader.is_done()) {
      Result<std::string_view> received = receive();
      if (!received) {
        result = received.error();
      } else if (received->empty()) {
        result = reader.end();
        break;
      } else {
        result = reader.feed(*received);
      }
    }
    if (!result || !reader.is_keep_alive()) disconnect();
    if (result) return reader.take();
    // The server may close a kept connection just when the next request is sent.
    const bool is_stale =
        is_kept && !reader.has_started() && result.error().code == ErrorCode::kInvalidArgument;
    if (!is_stale) return result.error();
  }
}

Result<ClientResponse> HttpClient::Impl::run(
    const ClientRequest& request, const OnEvent* on_event
) {
  if (Result<void> valid = check_request(request); !valid) return valid.error();
  const SigpipeBlock block;
  return exchange(request, on_event);
}

HttpClient::HttpClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpClient> HttpClient::make(BaseUrl url, ClientOptions options) {
  auto impl = std::make_unique<Impl>();
  if (url.is_tls) {
    Result<TlsContext> tls = TlsContext::for_client(options.ca_file, options.is_verified);
    if (!tls) return tls.error();
    impl->tls = std::move(*tls);
  }
  const int fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (fd < 0) return connection_error("cannot make an event");
  impl->cancel_event = UniqueFd(fd);
  impl->url = std::move(url);
  impl->options = std::move(options);
  return HttpClient(std::move(impl));
}

Result<ClientResponse> HttpClient::request(const ClientRequest& request) {
  return impl_->run(request, nullptr);
}

Result<ClientResponse> HttpClient::stream(const ClientRequest& request, const OnEvent& on_event) {
  return impl_->run(request, &on_event);
}

void HttpClient::cancel() {
  const uint64_t one = 1;
  // It fails only when the count is at its limit: then a cancellation waits already.
  static_cast<void>(::write(impl_->cancel_event.get(), &one, sizeof one));
}

}  // namespace millrace::http
