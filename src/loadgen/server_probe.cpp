#include "loadgen/server_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include "loadgen/gpu_meter.h"
#include "loadgen/metrics_text.h"
#include "loadgen/process_meter.h"
#include "loadgen/server_client.h"
#include "loadgen/server_figures.h"

namespace millrace::bench {
namespace {

using std::chrono::milliseconds;

// A busy server answers these late, but it answers them.
constexpr milliseconds kAnswerTimeout{10'000};
constexpr milliseconds kReadyInterval{200};
constexpr milliseconds kIdleInterval{50};

// Waits for the next try, as far as the deadline leaves time; false: it does not.
bool may_try_again(TimePoint deadline, milliseconds interval) {
  const Duration left = deadline - Clock::now();
  if (left <= Duration{0}) return false;
  std::this_thread::sleep_for(std::min<Duration>(left, interval));
  return true;
}

std::string text_at(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

// The models of a list as OpenAI words it.
std::vector<const json::object*> list_models(const json::value& list) {
  std::vector<const json::object*> models;
  const json::object* object = list.if_object();
  const json::value* data = object == nullptr ? nullptr : object->if_contains("data");
  if (data == nullptr || !data->is_array()) return models;
  for (const json::value& model : data->get_array()) {
    if (model.is_object()) models.push_back(&model.get_object());
  }
  return models;
}

std::string joined(const std::vector<std::string>& names) {
  constexpr size_t kNamesMax = 10;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kNamesMax); ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  if (names.size() > kNamesMax) text += fmt::format(" and {} more", names.size() - kNamesMax);
  return text;
}

}  // namespace

struct ServerProbe::Impl {
  ServerClient client;
  std::optional<int> local_pid;
  GpuMeter gpu_meter;
  // Where the server's metrics are, once some were seen.
  std::optional<std::string> metrics_path;

  Impl(ServerClient its_client, std::optional<int> pid)
      : client(std::move(its_client)), local_pid(pid) {}

  // Whether it is ready; else what it did instead.
  Result<void> check_ready();
  std::optional<MetricsText> metrics();
};

ServerProbe::ServerProbe(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ServerProbe::ServerProbe(ServerProbe&&) noexcept = default;
ServerProbe& ServerProbe::operator=(ServerProbe&&) noexcept = default;
ServerProbe::~ServerProbe() = default;

Result<ServerProbe> ServerProbe::make(const Target& target, std::optional<int> local_pid) {
  Result<ServerClient> client = ServerClient::make(target, kAnswerTimeout);
  if (!client) return client.error();
  return ServerProbe(std::make_unique<Impl>(std::move(*client), local_pid));
}

Result<void> ServerProbe::Impl::check_ready() {
  Result<http::ClientResponse> response = client.get("/health");
  // Where a key is wanted it answers; whether ours will do shows with the first request.
  const auto answers = [](const http::ClientResponse& r) {
    return is_success(r) || r.status == 401 || r.status == 403;
  };
  if (response && is_missing(*response)) {
    response = client.get("/v1/models");
    if (response && is_missing(*response)) return {};
  }
  if (!response) return response.error();
  if (answers(*response)) return {};
  return invalid_argument(describe(*response));
}

Result<void> ServerProbe::wait_ready(milliseconds timeout) {
  const TimePoint deadline = Clock::now() + timeout;
  while (true) {
    const Result<void> ready = impl_->check_ready();
    if (ready || ready.error().code == ErrorCode::kNotFound) return ready;
    if (may_try_again(deadline, kReadyInterval)) continue;
    return Error{
        ErrorCode::kDeadlineExceeded,
        fmt::format(
            "the server did not become ready within {:g} s: {}",
            std::chrono::duration<double>(timeout).count(),
            ready.error().message
        ),
        ready.error().where,
    };
  }
}

Result<std::vector<std::string>> ServerProbe::models() {
  const Result<json::value> list = impl_->client.get_json("/v1/models");
  if (!list) return list.error();
  std::vector<std::string> ids;
  for (const json::object* model : list_models(*list)) {
    if (std::string id = text_at(*model, "id"); !id.empty()) ids.push_back(std::move(id));
  }
  return ids;
}

Result<std::string> ServerProbe::choose_model(const std::string& model) {
  const Result<std::vector<std::string>> ids = models();
  if (!ids) {
    const bool has_no_list = ids.error().code == ErrorCode::kUnsupported;
    if (has_no_list && !model.empty()) return model;
    if (!has_no_list) return ids.error();
    return invalid_argument("the server lists no models: name one", "model");
  }
  if (model.empty()) {
    if (!ids->empty()) return ids->front();
    return invalid_argument("the server's list of models is empty: name one", "model");
  }
  if (ids->empty() || std::find(ids->begin(), ids->end(), model) != ids->end()) return model;
  return invalid_argument(
      fmt::format("the server has no model '{}': it has {}", model, joined(*ids)), "model"
  );
}

std::string ServerProbe::version() {
  std::string kind;
  if (const Result<json::value> list = impl_->client.get_json("/v1/models")) {
    const auto models = list_models(*list);
    if (!models.empty()) kind = text_at(*models.front(), "owned_by");
  }
  struct Place {
    const char* path;
    const char* field;
  };
  constexpr std::array<Place, 5> kPlaces = {{
      {"/version", "version"},          // vLLM, TensorRT-LLM, millrace
      {"/server_info", "version"},      // SGLang
      {"/get_server_info", "version"},  // SGLang, older
      {"/props", "build_info"},         // llama-server
      {"/info", "version"},             // TGI
  }};
  for (const Place& place : kPlaces) {
    const Result<json::value> said = impl_->client.get_json(place.path);
    if (!said || !said->is_object()) continue;
    const std::string version = text_at(said->get_object(), place.field);
    if (!version.empty()) return kind.empty() ? version : kind + " " + version;
  }
  return kind;
}

// TensorRT-LLM has figures of another kind at /metrics, as JSON.
std::optional<MetricsText> ServerProbe::Impl::metrics() {
  const std::array<std::string, 2> paths = {"/metrics", "/prometheus/metrics"};
  for (const std::string& path : paths) {
    if (metrics_path && *metrics_path != path) continue;
    const Result<http::ClientResponse> response = client.get(path);
    if (!response) return std::nullopt;  // another time
    if (!is_success(*response)) continue;
    MetricsText text = MetricsText::parse(response->body);
    if (text.samples().empty()) continue;
    metrics_path = path;
    return text;
  }
  return std::nullopt;
}

ServerSample ServerProbe::sample(Nanos at) {
  ServerSample sample{.at = at};
  if (const std::optional<MetricsText> metrics = impl_->metrics()) {
    read_server_figures(*metrics, sample);
  }
  if (!impl_->local_pid) return sample;
  if (const std::optional<ProcessUse> use = read_process_tree(*impl_->local_pid)) {
    sample.cpu_seconds = use->cpu_seconds;
    sample.resident_bytes = use->resident_bytes;
  }
  if (const std::optional<GpuUse> gpu = impl_->gpu_meter.read()) {
    sample.gpu_utilization = gpu->utilization;
    sample.gpu_memory_bytes = gpu->memory_bytes;
    sample.gpu_watts = gpu->watts;
  }
  return sample;
}

bool ServerProbe::wait_idle(milliseconds timeout, const std::stop_token& stop) {
  const TimePoint deadline = Clock::now() + timeout;
  do {
    const std::optional<MetricsText> metrics = impl_->metrics();
    if (!metrics) return true;
    ServerSample sample;
    read_server_figures(*metrics, sample);
    if (sample.num_running.value_or(0.0) + sample.num_waiting.value_or(0.0) <= 0.0) return true;
  } while (!stop.stop_requested() && may_try_again(deadline, kIdleInterval));
  return false;
}

bool ServerProbe::flush_cache() {
  const auto worked = [](const Result<http::ClientResponse>& response) {
    return response.ok() && is_success(*response);
  };
  const Result<http::ClientResponse> flushed = impl_->client.post("/flush_cache", "");
  if (worked(flushed) || worked(impl_->client.post("/reset_prefix_cache", ""))) return true;
  // SGLang's once was a GET.
  return flushed && flushed->status == 405 && worked(impl_->client.get("/flush_cache"));
}

std::optional<int> find_local_server(const http::BaseUrl& url) {
  const auto* tcp = std::get_if<http::TcpAddress>(&url.address);
  if (tcp == nullptr) return std::nullopt;
  const bool is_local =
      tcp->host == "localhost" || tcp->host == "::1" || tcp->host.starts_with("127.");
  return is_local ? find_listening_process(tcp->port) : std::nullopt;
}

}  // namespace millrace::bench
