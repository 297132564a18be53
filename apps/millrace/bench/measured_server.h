// A server that is to be measured: found, named, and with what its prompts need.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "bench/flags.h"
#include "loadgen/server_probe.h"
#include "loadgen/target.h"
#include "workload/token_codec.h"

namespace millrace::bench {

struct MeasuredServer {
  Target target;
  ServerProbe probe;
  std::string framework;  // what reports call it
  std::string version;    // as it or the flags say
  std::string device;
  std::string tokenizer;                    // as reports print it
  std::shared_ptr<const TokenCodec> codec;  // null where nobody asked for lengths in tokens

  // Waits for the server, chooses its model and finds its process. `framework` and `url` may be
  // empty: the flags' own. One clear line says what is wrong with it.
  static Result<MeasuredServer> connect(
      const BenchFlags& flags, const std::string& framework, const std::string& url
  );
};

// Whether a dataset of that name counts tokens, and so needs a codec.
bool needs_codec(const DatasetOptions& options);

}  // namespace millrace::bench
