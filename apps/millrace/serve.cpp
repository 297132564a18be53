// `millrace serve`: the OpenAI-compatible server. Listens, loads the model, serves until SIGTERM or
// SIGINT, drains, and is gone; a second signal ends the drain. A signal while it loads ends it.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>

#include "base/log.h"
#include "command_line.h"
#include "commands.h"
#include "failure.h"
#include "interrupt_signal.h"
#include "ranks.h"
#include "record_flag.h"
#include "serve_flags.h"
#include "server/api_server.h"
#include "server/local_model.h"

namespace millrace {
namespace {

sigset_t stop_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  return signals;
}

// The signals that stop the server. While one lives they wait instead of ending the process, and so
// does SIGCHLD: for it to be made before any thread is, since threads inherit that.
class StopSignals {
 public:
  StopSignals() : signals_(stop_signals()) {
    sigset_t blocked = signals_;
    sigaddset(&blocked, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &blocked, &before_);
  }
  ~StopSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // `ranks`: processes that this one cannot serve without, or nullptr.
  void wait(ProcessGroup* ranks) {
    sigset_t awaited = signals_;
    if (ranks != nullptr) sigaddset(&awaited, SIGCHLD);
    int signal = 0;
    for (sigwait(&awaited, &signal); signal == SIGCHLD; sigwait(&awaited, &signal)) {
      ranks->end_if_one_is_lost();
    }
  }

  // Whether one came since the last call.
  bool take() {
    const timespec at_once = {};
    return sigtimedwait(&signals_, nullptr, &at_once) > 0;
  }

 private:
  sigset_t signals_;
  sigset_t before_ = {};
};

// There is nothing to drain yet, and nobody to tell a load that takes minutes to stop.
[[noreturn]] void end_while_loading(ApiServer& server, Log& log) {
  server.drain(Clock::now(), [] { return true; });
  log.info("stopped while loading");
  std::_Exit(EXIT_SUCCESS);
}

Result<LocalModel> load(
    const ServeFlags& flags, LocalModelOptions options, ApiServer& server, Log& log
) {
  const auto warn = [&log](std::string_view message) { log.warning(message); };
  if (auto opened = record_steps(flags.record, warn, options.engine); !opened) {
    return opened.error();
  }
  options.engine.max_num_live_seqs = flags.max_num_live_seqs;
  options.engine.n_max = std::min(options.engine.n_max, flags.max_num_live_seqs);
  options.engine.logprobs_max = flags.max_logprobs;
  options.engine.on_step_end = [&server] { server.on_step_end(); };
  if (flags.engine == "null") {
    Result<NullEngineOptions> null_engine = null_engine_options_of(flags);
    if (!null_engine) return null_engine.error();
    return load_null_model(std::move(options), *std::move(null_engine));
  }
  return load_with_progress(std::move(options));
}

void log_addresses(const ApiServer& server, bool is_tls, Log& log) {
  for (const std::string& address : server.addresses()) {
    const std::string url = address.starts_with("unix:") ? address
                            : is_tls                     ? "https://" + address
                                                         : "http://" + address;
    log.info("listening on " + url);
  }
}

Result<void> serve(const ServeFlags& flags) {
  const Result<LogOptions> log_options = log_options_of(flags);
  if (!log_options) return log_options.error();
  Result<ApiServerOptions> server_options = api_server_options_of(flags);
  if (!server_options) return server_options.error();
  Result<ServingOptions> serving_options = serving_options_of(flags);
  if (!serving_options) return serving_options.error();
  const Result<AdmissionLimits> admission = admission_limits_of(flags);
  if (!admission) return admission.error();
  const Result<DeviceChoice> device = device_of_flag(flags.model.device);
  if (!device) return device.error();
  // Before anybody is told of an address.
  if (auto chosen = choose_device(*device); !chosen) return chosen.error();
  Result<LocalModelOptions> model_options = model_options_of(flags.model);
  if (!model_options) return model_options.error();
  model_options->engine.admission = *admission;
  const bool is_tls = server_options->tls.has_value();

  StopSignals signals;
  const Result<std::unique_ptr<ProcessGroup>> ranks = start_ranks(*model_options);
  if (!ranks) return ranks.error();
  Result<std::unique_ptr<Log>> log = Log::open(*log_options);
  if (!log) return log.error();
  Result<std::unique_ptr<ApiServer>> server = ApiServer::start(*std::move(server_options), **log);
  if (!server) return server.error();
  log_addresses(**server, is_tls, **log);

  const TimePoint start = Clock::now();
  Result<std::unique_ptr<InterruptSignal>> interrupt = InterruptSignal::make(
      {SIGTERM, SIGINT}, [&server, &log] { end_while_loading(**server, **log); }
  );
  if (!interrupt) return interrupt.error();
  Result<LocalModel> model = load(flags, *std::move(model_options), **server, **log);
  interrupt->reset();
  if (!model) return model.error();
  for (const std::string& line : model->start_lines) (*log)->info(line);
  (*server)->serve(*std::move(model), *std::move(serving_options));
  const std::string address = (*server)->addresses().front();
  (*log)->info(fmt::format(
      "serving on {}{}, ready after {:.2f} s",
      address.starts_with("unix:") ? ""
      : is_tls                     ? "https://"
                                   : "http://",
      address,
      to_seconds(Clock::now() - start)
  ));

  signals.wait(ranks->get());
  (*log)->info("stopping: no new requests; those under way may finish");
  const std::chrono::duration<double> timeout(flags.shutdown_timeout_s);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Duration>(timeout);
  (*server)->drain(deadline, [&signals] { return signals.take(); });
  (*log)->info("stopped");
  return {};
}

}  // namespace

int run_serve(std::vector<std::string> arguments) {
  ServeFlags flags;
  CommandLine line("serve", "Serves a model to any OpenAI-compatible client.");
  add_serve_flags(line, flags);
  if (const std::optional<int> exit_code = line.parse(std::move(arguments))) return *exit_code;
  return report("serve", serve(flags));
}

}  // namespace millrace
