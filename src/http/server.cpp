#include "http/server.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <future>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "http/address.h"
#include "http/io_thread.h"
#include "http/listener.h"

namespace millrace::http {
namespace {

constexpr size_t kNumThreadsMax = 256;
constexpr std::chrono::milliseconds kDrainPollInterval{5};

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

Result<std::vector<ListeningSocket>> listen_on_all(const HttpServerOptions& options) {
  std::vector<ListeningSocket> sockets;
  for (const std::string& text : options.addresses) {
    Result<Address> address = parse_address(text);
    if (!address) return address.error();
    Result<ListeningSocket> socket = listen_on(*address, options.limits);
    if (!socket) return socket.error();
    sockets.push_back(std::move(*socket));
  }
  return sockets;
}

Result<void> check_options(const HttpServerOptions& options) {
  if (Result<void> valid = validate(options.limits); !valid) return valid;
  if (options.addresses.empty()) return invalid_argument("expected at least one", "addresses");
  if (options.num_threads < 1 || options.num_threads > kNumThreadsMax) {
    return invalid_argument(fmt::format("expected 1 to {}", kNumThreadsMax), "num_threads");
  }
  if (!options.render_error) return invalid_argument("expected a function", "render_error");
  return {};
}

void warn_of_few_descriptors(const Service& service) {
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur > service.limits.num_connections_max) return;
  service.log_line(fmt::format(
      "the process may open {} files, fewer than the {} connections it would accept",
      limit.rlim_cur,
      service.limits.num_connections_max
  ));
}

}  // namespace

struct HttpServer::Impl {
  Service service;
  std::vector<Address> bound;
  std::vector<std::string> addresses;
  std::vector<std::unique_ptr<IoThread>> threads;
  std::unique_ptr<Listener> listener;
  std::mutex mutex;  // guards what follows
  bool is_accepting = true;
  bool is_running = true;

  // Runs `call` on the listener's thread and waits. REQUIRES: the threads run.
  template <class Call>
  void run_on_listener(const Call& call) {
    std::promise<void> done;
    boost::asio::post(threads.front()->io(), [&] {
      call();
      done.set_value();
    });
    done.get_future().wait();
  }

  void stop_accepting_locked() {
    if (!std::exchange(is_accepting, false)) return;
    run_on_listener([&] { listener->stop(); });
    for (const Address& address : bound) {
      if (const auto* local = std::get_if<UnixAddress>(&address)) ::unlink(local->path.c_str());
    }
  }
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() {
  stop();
}

Result<std::unique_ptr<HttpServer>> HttpServer::start(HttpServerOptions options) {
  if (Result<void> valid = check_options(options); !valid) return valid.error();
  auto impl = std::make_unique<Impl>();
  if (options.tls) {
    Result<TlsContext> tls = TlsContext::for_server(options.tls->cert_file, options.tls->key_file);
    if (!tls) return tls.error();
    impl->service.tls = std::move(*tls);
  }
  Result<std::vector<ListeningSocket>> sockets = listen_on_all(options);
  if (!sockets) return sockets.error();
  for (const ListeningSocket& socket : *sockets) {
    impl->bound.push_back(socket.address);
    impl->addresses.push_back(to_string(socket.address));
  }
  impl->service.limits = options.limits;
  impl->service.bodies = std::make_unique<ByteBudget>(
      std::max(options.limits.all_bodies_bytes_max, options.limits.body_bytes_max)
  );
  impl->service.router = std::move(options.router);
  impl->service.render_error = std::move(options.render_error);
  impl->service.guard = std::move(options.guard);
  impl->service.log = std::move(options.log);
  impl->service.cors = std::move(options.cors);
  impl->service.server_name = std::move(options.server_name);
  warn_of_few_descriptors(impl->service);
  for (size_t i = 0; i < options.num_threads; ++i) {
    impl->threads.push_back(std::make_unique<IoThread>(impl->service, random_seed()));
  }
  impl->listener = std::make_unique<Listener>(impl->threads, std::move(*sockets));
  impl->listener->start();
  for (size_t i = 0; i < impl->threads.size(); ++i) impl->threads[i]->start(i);
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
}

const std::vector<std::string>& HttpServer::addresses() const {
  return impl_->addresses;
}

std::optional<uint16_t> HttpServer::port() const {
  for (const Address& address : impl_->bound) {
    if (const auto* tcp = std::get_if<TcpAddress>(&address)) return tcp->port;
  }
  return std::nullopt;
}

void HttpServer::stop_accepting() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stop_accepting_locked();
}

size_t HttpServer::drain(TimePoint deadline) {
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stop_accepting_locked();
    if (!impl_->is_running) return 0;
    impl_->service.is_draining = true;
    for (const auto& thread : impl_->threads) thread->drain();
  }
  while (impl_->listener->num_connections() > 0 && Clock::now() < deadline) {
    std::this_thread::sleep_for(kDrainPollInterval);
  }
  const size_t num_cut = impl_->listener->num_connections();
  stop();
  return num_cut;
}

void HttpServer::stop() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stop_accepting_locked();
  if (!std::exchange(impl_->is_running, false)) return;
  for (const auto& thread : impl_->threads) thread->stop();
  for (const auto& thread : impl_->threads) thread->join();
}

CountersSnapshot HttpServer::counters() const {
  CountersSnapshot snapshot;
  for (const auto& thread : impl_->threads) thread->counters().add_to(snapshot);
  return snapshot;
}

}  // namespace millrace::http
