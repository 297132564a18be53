// Bytes to and from one connected, non-blocking socket, in the clear or through TLS. Nothing here
// waits: the owner waits for the socket, on a reactor (the server) or with poll (the client).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

struct ssl_ctx_st;

namespace millrace::http {

enum class IoStatus {
  kDone,       // `num_bytes` were moved, at least one
  kWantRead,   // nothing moved; try again when the socket can be read
  kWantWrite,  // nothing moved; try again when the socket can be written
  kEnd,        // the peer ended its direction
  kFailed,     // reset, or not TLS
};

struct IoResult {
  IoStatus status = IoStatus::kFailed;
  size_t num_bytes = 0;
};

// Borrows the socket. One thread.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual IoResult read(std::span<char> buffer) = 0;
  // Writes from the start of the pieces, which stand behind each other; at least one is not empty.
  virtual IoResult write(std::span<const std::string_view> pieces) = 0;
  // Says that no more will be written; the socket stays open for reading.
  virtual void end_writing() = 0;
  // Whether bytes may wait inside, where the reactor does not see them.
  virtual bool is_buffering() const = 0;
  // Whether what comes before the first byte is over: TLS's handshake, which reads and writes
  // drive.
  virtual bool is_established() const = 0;
  // After kFailed: what went wrong, in the system's or OpenSSL's words.
  virtual std::string failure() const = 0;
};

std::unique_ptr<Transport> make_plain_transport(int socket);

// TLS 1.2 or later, through OpenSSL. Offers and accepts only the protocol "http/1.1" (ALPN).
// Immutable after it is made, so any thread may make transports.
// A write to a socket that the peer has reset raises SIGPIPE on the writing thread (OpenSSL gives
// no way to say MSG_NOSIGNAL): the threads that own transports block that signal.
class TlsContext {
 public:
  // PEM files: the certificate with its chain, and its key.
  static Result<TlsContext> for_server(const std::string& cert_file, const std::string& key_file);

  // Verifies the server against `ca_file`, or the system's authorities if it is empty.
  static Result<TlsContext> for_client(const std::string& ca_file, bool is_verified);

  // Null if memory is short. The handshake happens within the first reads and writes.
  std::unique_ptr<Transport> accept(int socket) const;
  std::unique_ptr<Transport> connect(int socket, const std::string& host) const;

 private:
  explicit TlsContext(std::shared_ptr<ssl_ctx_st> context) : context_(std::move(context)) {}
  // Shared with nobody; OpenSSL's own count keeps it alive for its connections.
  std::shared_ptr<ssl_ctx_st> context_;
  bool is_verified_ = true;
};

// While it lives, a write to a socket without a reader gives EPIPE on this thread, not a signal.
class SigpipeBlock {
 public:
  SigpipeBlock();
  ~SigpipeBlock();
  SigpipeBlock(const SigpipeBlock&) = delete;
  SigpipeBlock& operator=(const SigpipeBlock&) = delete;

 private:
  bool was_blocked_ = false;
};

}  // namespace millrace::http
