#include "bench/measured_server.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <utility>

namespace millrace::bench {

bool needs_codec(const DatasetOptions& options) {
  return options.name != "custom";
}

Result<MeasuredServer> MeasuredServer::connect(
    const BenchFlags& flags, const std::string& framework, const std::string& url
) {
  Result<Target> target = target_of(flags.target, url);
  if (!target) return target.error();
  Result<ServerProbe> probe = ServerProbe::make(*target);
  if (!probe) return probe.error();
  const auto timeout =
      std::chrono::milliseconds(static_cast<int64_t>(flags.target.ready_timeout_s * 1000.0));
  if (auto ready = probe->wait_ready(timeout); !ready) {
    Error error = ready.error();
    error.message = fmt::format(
        "{}: {}; is it running? (--base-url, --port, --ready-check-timeout-sec)",
        target->url.host_field(),
        error.message
    );
    return error;
  }
  // Only who listens can be found by the port.
  const std::optional<int> pid =
      flags.target.pid ? flags.target.pid : find_local_server(target->url);
  if (pid) probe = ServerProbe::make(*target, pid);
  if (!probe) return probe.error();
  Result<std::string> model = probe->choose_model(flags.target.model);
  if (!model) return model.error();
  target->model = *std::move(model);

  std::shared_ptr<const TokenCodec> codec;
  // Who names a tokenizer has tokens counted where nothing needs it, too.
  if (needs_codec(flags.dataset) || !flags.target.tokenizer.empty()) {
    Result<std::shared_ptr<const TokenCodec>> made = codec_of(flags.target, *target);
    if (!made) return made.error();
    codec = *std::move(made);
  }
  std::string name = framework.empty() ? flags.target.framework : framework;
  if (name.empty()) name = flags.target.backend;
  std::string version = flags.output.version.empty() ? probe->version() : flags.output.version;
  // "millrace 0.1.0": the name stands beside it.
  if (version.starts_with(name + " ")) version.erase(0, name.size() + 1);
  return MeasuredServer{
      .target = *std::move(target),
      .probe = *std::move(probe),
      .framework = std::move(name),
      .version = std::move(version),
      .device = flags.output.device,
      .tokenizer = flags.target.tokenizer.empty() ? "of the server" : flags.target.tokenizer,
      .codec = std::move(codec),
  };
}

}  // namespace millrace::bench
