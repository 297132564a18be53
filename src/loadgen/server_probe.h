// What one asks a server beside the load: is it there, which model, what it says of itself, flush,
// and has it become idle. Blocking; one thread at a time.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "loadgen/target.h"
#include "results/point_record.h"
#include "workload/token_codec.h"

namespace millrace::bench {

class ServerProbe {
 public:
  // `local_pid`: the server's process, where it runs on this machine.
  static Result<ServerProbe> make(const Target& target, std::optional<int> local_pid = {});
  ServerProbe(ServerProbe&&) noexcept;
  ServerProbe& operator=(ServerProbe&&) noexcept;
  ~ServerProbe();

  // Waits until the server answers at all. The error says what it did instead.
  Result<void> wait_ready(std::chrono::milliseconds timeout);

  // The ids of /v1/models; the first is used where none was named. The error names those there are
  // if `model` is not among them.
  Result<std::vector<std::string>> models();
  Result<std::string> choose_model(const std::string& model);

  // What kind of server and which version, as /version and /server_info tell; empty: not said.
  std::string version();

  // Of /metrics, /proc and nvidia-smi: what is not there is none. Never fails.
  ServerSample sample(Nanos at);

  // Until /metrics says that nothing runs or waits, or, without metrics, at once. False: still
  // busy.
  bool wait_idle(std::chrono::milliseconds timeout);

  // /flush_cache or /reset_prefix_cache, whichever there is. False: neither.
  bool flush_cache();

 private:
  struct Impl;
  explicit ServerProbe(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// A codec over the server's /tokenize and /detokenize. The error says that it has none.
Result<std::shared_ptr<const TokenCodec>> make_server_codec(const Target& target);

}  // namespace millrace::bench
