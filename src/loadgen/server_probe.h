// What one asks a server beside the load: is it there, which model, what it says of itself, flush,
// and has it become idle. Knows the ways of vLLM, SGLang, TensorRT-LLM, llama-server, lmdeploy, TGI
// and millrace. Blocking; one thread at a time. Paths are those of the server's root, also where
// the base URL ends with /v1.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "loadgen/target.h"
#include "results/point_record.h"
#include "workload/token_codec.h"

namespace millrace::bench {

class ServerProbe {
 public:
  // `local_pid`: the server's process, where it runs on this machine; GPUs are looked at only then.
  static Result<ServerProbe> make(const Target& target, std::optional<int> local_pid = {});
  ServerProbe(ServerProbe&&) noexcept;
  ServerProbe& operator=(ServerProbe&&) noexcept;
  ~ServerProbe();

  // Waits until the server is healthy, or, where it has no /health, answers at all; asks at least
  // once. The error says what it did instead. A host that does not exist is not waited for.
  Result<void> wait_ready(std::chrono::milliseconds timeout);

  // The ids of /v1/models.
  Result<std::vector<std::string>> models();
  // `model`, if the server has it, or has no list to look at; the first of the list where `model`
  // is empty. The error names those there are.
  Result<std::string> choose_model(const std::string& model);

  // What kind of server and which version ("vllm 0.9.1"), as far as /v1/models, /version and their
  // like tell; empty: not said.
  std::string version();

  // Of /metrics, /proc and nvidia-smi: what is not there is none. Never fails.
  ServerSample sample(Nanos at);

  // Until /metrics says that nothing runs or waits, or, without metrics, at once; asks at least
  // once. False: still busy, or stopped.
  bool wait_idle(std::chrono::milliseconds timeout, const std::stop_token& stop = {});

  // /flush_cache or /reset_prefix_cache, whichever there is. False: neither worked; SGLang refuses
  // while requests run.
  bool flush_cache();

 private:
  struct Impl;
  explicit ServerProbe(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// The process of the server, where `url` names this machine by its loopback address; none:
// elsewhere, or not to be seen.
std::optional<int> find_local_server(const http::BaseUrl& url);

// A codec over the server's /tokenize and /detokenize, in the shapes of vLLM, SGLang, llama-server
// and millrace. Thread-safe: calls take turns. No server tells which ids there are, nor which are
// special, and one cannot find out from outside: the text of a special token comes back as that
// token. So only those ids count as not reserved that some thousand made-up words, tokenized when
// it is made, gave: a safe part of the vocabulary, up to whose largest vocab_size() goes. The error
// says what the server did instead.
Result<std::shared_ptr<const TokenCodec>> make_server_codec(const Target& target);

}  // namespace millrace::bench
