// Our client and our server together, over each kind of transport; TLS from the outside too.
#include "http/client.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstdio>
#include <filesystem>
#include <future>
#include <string>
#include <thread>

#include "base/test_folder.h"
#include "http/sse_writer.h"
#include "http/test_server.h"

namespace millrace::http {
namespace {

using namespace std::chrono_literals;

// A key and a certificate for "localhost" and 127.0.0.1, signed by itself, valid for an hour.
TlsFiles make_certificate(const TestFolder& folder) {
  TlsFiles files{folder.path("cert.pem"), folder.path("key.pem")};
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
  X509_gmtime_adj(X509_getm_notBefore(cert), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  X509_NAME* name = X509_get_subject_name(cert);
  const auto* text = reinterpret_cast<const unsigned char*>("localhost");
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0);
  X509_set_issuer_name(cert, name);
  X509_EXTENSION* names =
      X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  X509_add_ext(cert, names, -1);
  X509_EXTENSION_free(names);
  EXPECT_GT(X509_sign(cert, key, EVP_sha256()), 0);
  FILE* file = std::fopen(files.cert_file.c_str(), "w");
  PEM_write_X509(file, cert);
  std::fclose(file);
  file = std::fopen(files.key_file.c_str(), "w");
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  std::fclose(file);
  X509_free(cert);
  EVP_PKEY_free(key);
  return files;
}

HttpClient client_of(const std::string& url, ClientOptions options = {}) {
  Result<HttpClient> client = HttpClient::make(*parse_base_url(url), std::move(options));
  EXPECT_TRUE(client.ok());
  return std::move(*client);
}

std::string url_of(TestServer& server, std::string_view scheme = "http") {
  return std::string(scheme) + "://127.0.0.1:" + std::to_string(server.port());
}

// Whole answers, large bodies, a stream, and the same connection throughout.
void expect_service(TestServer& server, HttpClient& client) {
  const uint64_t num_before = server.counters().num_connections_accepted;
  Result<ClientResponse> response = client.request({.method = "GET", .path = "/health"});
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->body, "ok\n");
  EXPECT_EQ(response->header("Content-Type"), "text/plain; charset=utf-8");
  const std::string large(3 << 20, 'x');
  response = client.request({.path = "/echo", .body = large});
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_TRUE(response->body == large);
  EXPECT_EQ(client.request({.method = "GET", .path = "/nowhere"})->status, 404);
  EXPECT_EQ(client.request({.method = "HEAD", .path = "/health"})->body, "");

  std::thread engine([&] {
    SseWriter writer(server.take_held());
    writer.begin();
    for (int i = 0; i < 1000; ++i) EXPECT_TRUE(writer.data(std::to_string(i)));
    writer.finish();
  });
  int num_events = 0;
  response = client.stream({.method = "GET", .path = "/hold"}, [&](const SseEvent& event) {
    EXPECT_EQ(event.data, std::to_string(num_events++));
    return true;
  });
  engine.join();
  ASSERT_TRUE(response.ok()) << response.error().message;
  EXPECT_EQ(num_events, 1000);
  EXPECT_EQ(server.counters().num_connections_accepted, num_before + 1);
}

TEST(Client, SpeaksOverTcp) {
  TestServer server;
  HttpClient client = client_of(url_of(server));
  expect_service(server, client);
}

TEST(Client, SpeaksOverTls) {
  const TestFolder folder;
  const TlsFiles files = make_certificate(folder);
  TestServer server([&](HttpServerOptions& options) { options.tls = files; });
  HttpClient client = client_of(url_of(server, "https"), {.ca_file = files.cert_file});
  expect_service(server, client);
  HttpClient careless = client_of(url_of(server, "https"), {.is_verified = false});
  EXPECT_EQ(careless.request({.method = "GET", .path = "/health"})->status, 200);
  HttpClient careful = client_of(url_of(server, "https"));
  EXPECT_FALSE(careful.request({.method = "GET", .path = "/health"}).ok());
}

TEST(Client, SpeaksOverAUnixSocket) {
  const TestFolder folder;
  const std::string address = "unix:" + folder.path("socket");
  {
    TestServer server([&](HttpServerOptions& options) { options.addresses.push_back(address); });
    HttpClient client = client_of(address);
    expect_service(server, client);
    EXPECT_EQ(server.server().addresses()[1], address);
    EXPECT_FALSE(HttpServer::start({.addresses = {address}}).ok()) << "it is in use";
  }
  EXPECT_FALSE(std::filesystem::exists(folder.path("socket")));
}

TEST(Client, ReplacesAStaleUnixSocket) {
  const TestFolder folder;
  const std::string path = folder.path("socket");
  {
    const UniqueFd stale(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    std::copy(path.begin(), path.end(), name.sun_path);
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  }
  EXPECT_TRUE(HttpServer::start({.addresses = {"unix:" + path}}).ok());
}

TEST(Client, SpeaksOverIpv6) {
  if (!HttpServer::start({.addresses = {"[::1]:0"}}).ok()) {
    GTEST_SKIP() << "this machine has no IPv6 loopback address";
  }
  TestServer server([](HttpServerOptions& options) { options.addresses = {"[::1]:0"}; });
  HttpClient client = client_of("http://[::1]:" + std::to_string(server.port()));
  expect_service(server, client);
}

TEST(Client, OpensAKeptConnectionAgain) {
  TestServer server([](HttpServerOptions& options) { options.limits.keep_alive_timeout = 30ms; });
  HttpClient client = client_of(url_of(server));
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(client.request({.method = "GET", .path = "/health"})->status, 200);
    EXPECT_TRUE(eventually([&] { return server.counters().num_connections_open == 0; }));
  }
}

TEST(Client, ReportsWhatWentWrong) {
  TestServer server;
  HttpClient slow = client_of(url_of(server), {.idle_timeout = 30ms});
  EXPECT_EQ(
      slow.request({.method = "GET", .path = "/hold"}).error().code, ErrorCode::kDeadlineExceeded
  );
  HttpClient small = client_of(url_of(server), {.body_bytes_max = 100});
  EXPECT_EQ(
      small.request({.path = "/echo", .body = std::string(1000, 'x')}).error().code,
      ErrorCode::kResourceExhausted
  );
  HttpClient client = client_of(url_of(server));
  EXPECT_FALSE(client.request({.method = "GET", .path = "/a b"}).ok());
  EXPECT_FALSE(client.request({.method = "GET", .path = "/\r\nx"}).ok());
  EXPECT_FALSE(client.request({.path = "/echo", .headers = {{"a", "b\r\nc: d"}}}).ok());
  const std::string url = url_of(server);
  server.server().stop();
  EXPECT_EQ(client_of(url).request({.path = "/"}).error().where, url.substr(7));
}

TEST(Client, ACutStreamIsAnError) {
  TestServer server;
  HttpClient client = client_of(url_of(server));
  std::thread engine([&] {
    SseWriter writer(server.take_held());
    writer.begin();
    writer.data("1");
  });
  int num_events = 0;
  const Result<ClientResponse> response =
      client.stream({.method = "GET", .path = "/hold"}, [&](const SseEvent&) {
        ++num_events;
        return true;
      });
  engine.join();
  EXPECT_FALSE(response.ok());
  EXPECT_EQ(num_events, 1);
}

TEST(Client, CancelledRequestsEndAndTheServerHears) {
  TestServer server;
  HttpClient client = client_of(url_of(server));
  std::future<Result<ClientResponse>> response = std::async(std::launch::async, [&] {
    return client.request({.method = "GET", .path = "/hold"});
  });
  const std::shared_ptr<Exchange> held = server.take_held();
  client.cancel();
  EXPECT_EQ(response.get().error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(eventually([&] { return held->is_client_gone(); }));
  EXPECT_EQ(client.request({.method = "GET", .path = "/health"})->status, 200);
}

TEST(Client, AStreamEndsWhenItsReaderHasEnough) {
  TestServer server;
  HttpClient client = client_of(url_of(server));
  std::shared_ptr<Exchange> held;
  std::thread engine([&] {
    held = server.take_held();
    SseWriter writer(held);
    writer.begin();
    writer.data("1");
  });
  EXPECT_TRUE(
      client.stream({.method = "GET", .path = "/hold"}, [](const SseEvent&) { return false; }).ok()
  );
  engine.join();
  EXPECT_TRUE(eventually([&] { return held->is_client_gone(); }));
}

TEST(Tls, OldVersionsAndPlainTextAreRefused) {
  const TestFolder folder;
  const TlsFiles files = make_certificate(folder);
  TestServer server([&](HttpServerOptions& options) {
    options.tls = files;
    options.limits.header_timeout = 200ms;
  });
  RawPeer plain(server.port());
  plain.send("GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(plain.read_to_end().find("HTTP/1.1 200"), std::string::npos);
  RawPeer silent(server.port());
  EXPECT_TRUE(silent.is_closed_silently()) << "a handshake has the head's deadline";

  for (const int version : {TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION}) {
    RawPeer peer(server.port());
    SSL_CTX* context = SSL_CTX_new(TLS_client_method());
    // Without this OpenSSL would refuse the old versions on our own side.
    SSL_CTX_set_security_level(context, 0);
    SSL_CTX_set_min_proto_version(context, version);
    SSL_CTX_set_max_proto_version(context, version);
    SSL* ssl = SSL_new(context);
    SSL_set_fd(ssl, peer.fd());
    EXPECT_EQ(SSL_connect(ssl) == 1, version != TLS1_1_VERSION) << version;
    SSL_free(ssl);
    SSL_CTX_free(context);
  }
}

TEST(Tls, DeparturesAreNoticed) {
  const TestFolder folder;
  const TlsFiles files = make_certificate(folder);
  TestServer server([&](HttpServerOptions& options) { options.tls = files; });
  HttpClient client = client_of(url_of(server, "https"), {.is_verified = false});
  std::future<Result<ClientResponse>> response = std::async(std::launch::async, [&] {
    return client.request({.method = "GET", .path = "/hold"});
  });
  const std::shared_ptr<Exchange> held = server.take_held();
  client.cancel();
  EXPECT_FALSE(response.get().ok());
  EXPECT_TRUE(eventually([&] { return held->is_client_gone(); }));
}

}  // namespace
}  // namespace millrace::http
