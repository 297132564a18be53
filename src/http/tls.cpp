// The half of transport.h that is OpenSSL.
#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "http/transport.h"

namespace millrace::http {
namespace {

// ALPN's wire form: each name behind its length.
constexpr std::array<unsigned char, 9> kHttp11 = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};

struct SslFree {
  void operator()(SSL* ssl) const { SSL_free(ssl); }
};

std::string openssl_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = ERR_reason_error_string(code);
  return reason == nullptr ? "unknown error" : reason;
}

class TlsTransport final : public Transport {
 public:
  explicit TlsTransport(std::unique_ptr<SSL, SslFree> ssl) : ssl_(std::move(ssl)) {}

  IoResult read(std::span<char> buffer) override {
    // What an earlier call of another connection left in the thread's queue would be taken for
    // ours.
    ERR_clear_error();
    size_t num_bytes = 0;
    errno = 0;
    const int rc = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &num_bytes);
    return outcome(rc, num_bytes);
  }

  IoResult write(std::span<const std::string_view> pieces) override {
    const auto piece = std::find_if(pieces.begin(), pieces.end(), [](std::string_view candidate) {
      return !candidate.empty();
    });
    ERR_clear_error();
    size_t num_bytes = 0;
    errno = 0;
    const int rc = SSL_write_ex(ssl_.get(), piece->data(), piece->size(), &num_bytes);
    return outcome(rc, num_bytes);
  }

  void end_writing() override {
    ERR_clear_error();
    if (!is_failed_ && SSL_is_init_finished(ssl_.get()) == 1) SSL_shutdown(ssl_.get());
    ERR_clear_error();
  }

  bool is_buffering() const override { return true; }
  bool is_established() const override { return SSL_is_init_finished(ssl_.get()) == 1; }
  std::string failure() const override { return failure_; }

 private:
  IoResult outcome(int rc, size_t num_bytes) {
    if (rc == 1) return {IoStatus::kDone, num_bytes};
    switch (SSL_get_error(ssl_.get(), rc)) {
      case SSL_ERROR_WANT_READ:
        return {IoStatus::kWantRead};
      case SSL_ERROR_WANT_WRITE:
        return {IoStatus::kWantWrite};
      case SSL_ERROR_ZERO_RETURN:
        return {IoStatus::kEnd};
      default:
        // OpenSSL forbids SSL_shutdown() after these.
        note_failure();
        return {IoStatus::kFailed};
    }
  }

  void note_failure() {
    is_failed_ = true;
    const int system_error = errno;
    const long verdict = SSL_get_verify_result(ssl_.get());
    if (verdict != X509_V_OK) {
      failure_ = X509_verify_cert_error_string(verdict);
    } else if (ERR_peek_error() != 0) {
      failure_ = openssl_error();
    } else if (system_error != 0) {
      failure_ = std::error_code(system_error, std::system_category()).message();
    } else {
      failure_ = "the connection was closed";
    }
  }

  std::unique_ptr<SSL, SslFree> ssl_;
  bool is_failed_ = false;
  std::string failure_;
};

int select_http11(
    SSL* /*ssl*/,
    const unsigned char** out,
    unsigned char* out_size,
    const unsigned char* in,
    unsigned in_size,
    void* /*argument*/
) {
  for (unsigned i = 0; i + 1 + in[i] <= in_size; i += 1U + in[i]) {
    if (in[i] == kHttp11[0] && std::memcmp(in + i + 1, kHttp11.data() + 1, kHttp11[0]) == 0) {
      *out = in + i + 1;
      *out_size = kHttp11[0];
      return SSL_TLSEXT_ERR_OK;
    }
    if (i + 1 + in[i] == in_size) break;
  }
  return SSL_TLSEXT_ERR_ALERT_FATAL;
}

std::shared_ptr<SSL_CTX> make_context(const SSL_METHOD* method) {
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(method), SSL_CTX_free);
  if (!context) return nullptr;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // A partial write may be repeated from another address; an idle connection gives its buffers
  // back.
  SSL_CTX_set_mode(
      context.get(),
      SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS
  );
  return context;
}

bool is_address(const std::string& host) {
  return host.find(':') != std::string::npos ||
         host.find_first_not_of("0123456789.") == std::string::npos;
}

}  // namespace

Result<TlsContext> TlsContext::for_server(
    const std::string& cert_file, const std::string& key_file
) {
  std::shared_ptr<SSL_CTX> context = make_context(TLS_server_method());
  if (!context) return Error{ErrorCode::kInternal, "OpenSSL does not start: " + openssl_error()};
  if (SSL_CTX_use_certificate_chain_file(context.get(), cert_file.c_str()) != 1) {
    return invalid_argument("cannot read a PEM certificate chain: " + openssl_error(), cert_file);
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    return invalid_argument("cannot read a PEM private key: " + openssl_error(), key_file);
  }
  if (SSL_CTX_check_private_key(context.get()) != 1) {
    return invalid_argument("the key does not belong to the certificate", key_file);
  }
  SSL_CTX_set_alpn_select_cb(context.get(), select_http11, nullptr);
  return TlsContext(std::move(context));
}

Result<TlsContext> TlsContext::for_client(const std::string& ca_file, bool is_verified) {
  std::shared_ptr<SSL_CTX> context = make_context(TLS_client_method());
  if (!context) return Error{ErrorCode::kInternal, "OpenSSL does not start: " + openssl_error()};
  const int rc = ca_file.empty()
                     ? SSL_CTX_set_default_verify_paths(context.get())
                     : SSL_CTX_load_verify_locations(context.get(), ca_file.c_str(), nullptr);
  if (rc != 1 && is_verified) {
    return invalid_argument("cannot read PEM authorities: " + openssl_error(), ca_file);
  }
  SSL_CTX_set_verify(context.get(), is_verified ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
  SSL_CTX_set_alpn_protos(context.get(), kHttp11.data(), kHttp11.size());
  TlsContext result(std::move(context));
  result.is_verified_ = is_verified;
  return result;
}

std::unique_ptr<Transport> TlsContext::accept(int socket) const {
  std::unique_ptr<SSL, SslFree> ssl(SSL_new(context_.get()));
  if (!ssl || SSL_set_fd(ssl.get(), socket) != 1) return nullptr;
  SSL_set_accept_state(ssl.get());
  return std::make_unique<TlsTransport>(std::move(ssl));
}

std::unique_ptr<Transport> TlsContext::connect(int socket, const std::string& host) const {
  std::unique_ptr<SSL, SslFree> ssl(SSL_new(context_.get()));
  if (!ssl || SSL_set_fd(ssl.get(), socket) != 1) return nullptr;
  SSL_set_connect_state(ssl.get());
  if (is_address(host)) {
    X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl.get()), host.c_str());
  } else {
    SSL_set_tlsext_host_name(ssl.get(), host.c_str());
    if (SSL_set1_host(ssl.get(), host.c_str()) != 1) return nullptr;
  }
  return std::make_unique<TlsTransport>(std::move(ssl));
}

}  // namespace millrace::http
