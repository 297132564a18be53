#include "results/record_json.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

#include "results/names.h"

namespace millrace::bench {
namespace {

// What a Chunk's time has room for, 39 hours: sums and differences of such times do not overflow.
constexpr int64_t kNanosMax = (int64_t{1} << 47) - 1;
constexpr uint64_t kChunkTokensMax = 65535;

// ---- the fields, in the order of their structs -------------------------------------------------

template <class Archive, class Part>
void list_fields(Archive& archive, Part& part) requires
    std::same_as<std::remove_const_t<Part>, LoadPlan> {
  archive.field("kind", part.kind);
  archive.field("request_rate", part.request_rate);
  archive.field("burstiness", part.burstiness);
  archive.field("max_concurrency", part.max_concurrency);
  archive.field("ramp", part.ramp);
  archive.field("ramp_start_rps", part.ramp_start_rps);
  archive.field("ramp_end_rps", part.ramp_end_rps);
}

template <class Archive, class Part>
void list_fields(Archive& archive, Part& part) requires
    std::same_as<std::remove_const_t<Part>, DatasetPlan> {
  archive.field("name", part.name);
  archive.field("input_len", part.input_len);
  archive.field("output_len", part.output_len);
  archive.field("hit_len", part.hit_len);
  archive.field("range_ratio", part.range_ratio);
  archive.field("range_ratio_mode", part.range_ratio_mode);
  archive.field("sharegpt_output_len", part.sharegpt_output_len);
  archive.field("seed", part.seed);
  archive.field("ignores_eos", part.ignores_eos);
}

template <class Archive, class Part>
void list_fields(Archive& archive, Part& part) requires
    std::same_as<std::remove_const_t<Part>, Goals> {
  archive.field("ttft_ms", part.ttft_ms);
  archive.field("tpot_ms", part.tpot_ms);
  archive.field("itl_ms", part.itl_ms);
  archive.field("e2e_ms", part.e2e_ms);
}

template <class Archive, class Part>
void list_fields(Archive& archive, Part& part) requires
    std::same_as<std::remove_const_t<Part>, PointPlan> {
  archive.field("name", part.name);
  archive.field("framework", part.framework);
  archive.field("version", part.version);
  archive.field("device", part.device);
  archive.field("backend", part.backend);
  archive.field("base_url", part.base_url);
  archive.field("endpoint", part.endpoint);
  archive.field("is_streamed", part.is_streamed);
  archive.field("model", part.model);
  archive.field("tokenizer", part.tokenizer);
  archive.field("label", part.label);
  archive.field("tag", part.tag);
  archive.field("metadata", part.metadata);
  archive.field("num_prompts", part.num_prompts);
  archive.field("num_warmups", part.num_warmups);
  archive.field("max_seconds", part.max_seconds);
  archive.field("dataset", part.dataset);
  archive.field("load", part.load);
  archive.field("goals", part.goals);
  archive.field("price_per_hour", part.price_per_hour);
}

template <class Archive, class Part>
void list_fields(Archive& archive, Part& part) requires
    std::same_as<std::remove_const_t<Part>, ClientUse> {
  archive.field("num_threads", part.num_threads);
  archive.field("cpu_seconds", part.cpu_seconds);
  archive.field("busiest_thread_share", part.busiest_thread_share);
  archive.field("num_connections", part.num_connections);
  archive.field("open_files_limit", part.open_files_limit);
}

template <class Archive, class Part>
void list_fields(Archive& archive, Part& part) requires
    std::same_as<std::remove_const_t<Part>, ServerSample> {
  archive.field("at_ns", part.at);
  archive.field("num_running", part.num_running);
  archive.field("num_waiting", part.num_waiting);
  archive.field("kv_usage", part.kv_usage);
  archive.field("prefix_queries", part.prefix_queries);
  archive.field("prefix_hits", part.prefix_hits);
  archive.field("num_preemptions", part.num_preemptions);
  archive.field("prompt_tokens", part.prompt_tokens);
  archive.field("generation_tokens", part.generation_tokens);
  archive.field("cpu_seconds", part.cpu_seconds);
  archive.field("resident_bytes", part.resident_bytes);
  archive.field("gpu_utilization", part.gpu_utilization);
  archive.field("gpu_memory_bytes", part.gpu_memory_bytes);
  archive.field("gpu_watts", part.gpu_watts);
}

template <class Archive, class Part>
void list_fields(Archive& archive, Part& part) requires
    std::same_as<std::remove_const_t<Part>, Calibration> {
  archive.field("ttft_p50_ms", part.ttft_p50_ms);
  archive.field("ttft_p99_ms", part.ttft_p99_ms);
  archive.field("itl_p50_ms", part.itl_p50_ms);
  archive.field("itl_p99_ms", part.itl_p99_ms);
  archive.field("requests_per_s", part.requests_per_s);
}

template <class Archive, class Part>
void list_fields(Archive& archive, Part& part) requires
    std::same_as<std::remove_const_t<Part>, HardwareLimit> {
  archive.field("name", part.name);
  archive.field("value", part.value);
  archive.field("unit", part.unit);
  archive.field("share", part.share);
}

template <class Archive, class Part>
void list_fields(Archive& archive, Part& part) requires
    std::same_as<std::remove_const_t<Part>, PointRecord> {
  archive.field("plan", part.plan);
  archive.field("started_unix_ns", part.started_unix_ns);
  archive.field("first_dispatch_ns", part.first_dispatch);
  archive.field("finished_ns", part.finished);
  archive.field("stop_reason", part.stop_reason);
  archive.field("client", part.client);
  archive.field("server", part.server);
  archive.field("calibration", part.calibration);
  archive.field("limits", part.limits);
  archive.field("environment", part.environment);
}

// All but the chunks, which have a form of their own.
template <class Archive, class Part>
void list_fields(Archive& archive, Part& part) requires
    std::same_as<std::remove_const_t<Part>, RequestRecord> {
  archive.field("index", part.index);
  archive.field("phase", part.phase);
  archive.field("slot", part.slot);
  archive.field("session", part.session);
  archive.field("turn", part.turn);
  archive.field("scheduled_ns", part.scheduled);
  archive.field("admitted_ns", part.admitted);
  archive.field("sent_ns", part.sent);
  archive.field("first_chunk_ns", part.first_chunk);
  archive.field("first_text_ns", part.first_text);
  archive.field("first_token_ns", part.first_token);
  archive.field("first_answer_ns", part.first_answer);
  archive.field("last_token_ns", part.last_token);
  archive.field("last_chunk_ns", part.last_chunk);
  archive.field("ended_ns", part.ended);
  archive.count("num_prompt_tokens_planned", part.num_prompt_tokens_planned);
  archive.count("num_output_tokens_planned", part.num_output_tokens_planned);
  archive.count("num_prompt_tokens", part.num_prompt_tokens);
  archive.count("num_cached_tokens", part.num_cached_tokens);
  archive.count("num_output_tokens", part.num_output_tokens);
  archive.field("output_source", part.output_source);
  archive.field("outcome", part.outcome);
  archive.field("failure", part.failure);
  archive.field("error", part.error);
  archive.field("http_status", part.http_status);
  archive.field("finish_reason", part.finish_reason);
  archive.field("text", part.text);
}

// ---- writing -----------------------------------------------------------------------------------

class FieldWriter {
 public:
  explicit FieldWriter(json::object& object) : object_(object) {}

  template <class T>
  void field(std::string_view key, const T& value) {
    object_[key] = encode(value);
  }
  void field(std::string_view key, const std::string& value) {
    if (!value.empty()) object_[key] = value;
  }
  template <class T>
  void field(std::string_view key, const std::optional<T>& value) {
    if (value) object_[key] = encode(*value);
  }
  template <class T>
  void field(std::string_view key, const std::vector<T>& values) {
    if (values.empty()) return;
    json::array array;
    array.reserve(values.size());
    for (const T& value : values) array.push_back(encode(value));
    object_[key] = std::move(array);
  }
  template <class T>
  void count(std::string_view key, const T& value) {
    field(key, value);
  }

 private:
  // JSON has no word for what is not finite.
  static json::value encode(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    return value;
  }
  template <class T>
  requires std::integral<T>
  static json::value encode(T value) { return value; }
  template <class T>
  requires std::is_enum_v<T>
  static json::value encode(T value) { return json::string(to_string(value)); }
  static json::value encode(Nanos value) { return int64_t{value.count()}; }
  static json::value encode(const std::string& value) { return json::string(value); }
  static json::value encode(const std::pair<std::string, std::string>& value) {
    return json::array{json::string(value.first), json::string(value.second)};
  }
  template <class T>
  requires std::is_class_v<T>
  static json::value encode(const T& part) {
    json::object object;
    FieldWriter writer(object);
    list_fields(writer, part);
    return object;
  }

  json::object& object_;
};

// ---- reading -----------------------------------------------------------------------------------

// Keeps the first error; a key that is not there leaves its field as it is.
class FieldReader {
 public:
  explicit FieldReader(const json::object& object, std::string place = "")
      : object_(object), place_(std::move(place)) {}

  template <class T>
  void field(std::string_view key, T& value) {
    const json::value* found = find(key);
    if (found != nullptr) decode(*found, key, value);
  }
  template <class T>
  void field(std::string_view key, std::optional<T>& value) {
    const json::value* found = find(key);
    if (found != nullptr) decode(*found, key, value.emplace());
  }
  template <class T>
  void field(std::string_view key, std::vector<T>& values) {
    const json::value* found = find(key);
    if (found == nullptr) return;
    if (!found->is_array()) return fail(key, "an array");
    values.resize(found->as_array().size());
    for (size_t i = 0; i < values.size(); ++i) decode(found->as_array()[i], key, values[i]);
  }
  void count(std::string_view key, int64_t& value) {
    field(key, value);
    if (value < 0 || value > kTokenCountMax) fail(key, "a count");
  }
  void count(std::string_view key, std::optional<int64_t>& value) {
    field(key, value);
    if (value && (*value < 0 || *value > kTokenCountMax)) fail(key, "a count");
  }

  void fail(std::string_view key, std::string_view expected) {
    if (!error_) error_ = invalid_argument(fmt::format("'{}{}' must be {}", place_, key, expected));
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  const json::value* find(std::string_view key) const { return object_.if_contains(key); }

  void decode(const json::value& from, std::string_view key, double& to) {
    if (from.is_number()) {
      to = from.to_number<double>();
    } else if (from == "inf") {
      to = std::numeric_limits<double>::infinity();
    } else if (from == "-inf") {
      to = -std::numeric_limits<double>::infinity();
    } else if (from == "nan") {
      to = std::numeric_limits<double>::quiet_NaN();
    } else {
      fail(key, "a number");
    }
  }
  void decode(const json::value& from, std::string_view key, bool& to) {
    if (!from.is_bool()) return fail(key, "true or false");
    to = from.as_bool();
  }
  template <class T>
  requires std::integral<T>
  void decode(const json::value& from, std::string_view key, T& to) {
    boost::system::error_code error;
    to = from.is_double() ? T{} : from.to_number<T>(error);
    if (error || from.is_double()) fail(key, "a whole number in range");
  }
  template <class T>
  requires std::is_enum_v<T>
  void decode(const json::value& from, std::string_view key, T& to) {
    const std::optional<T> value =
        from.is_string() ? parse_name<T>(from.as_string()) : std::nullopt;
    if (!value) return fail(key, "a known word");
    to = *value;
  }
  void decode(const json::value& from, std::string_view key, Nanos& to) {
    int64_t ns = 0;
    decode(from, key, ns);
    if (ns < -kNanosMax || ns > kNanosMax) fail(key, "a time within 39 hours");
    to = Nanos(ns);
  }
  void decode(const json::value& from, std::string_view key, std::string& to) {
    if (!from.is_string()) return fail(key, "a string");
    to = from.as_string();
  }
  void decode(
      const json::value& from, std::string_view key, std::pair<std::string, std::string>& to
  ) {
    if (!from.is_array() || from.as_array().size() != 2) return fail(key, "pairs of strings");
    decode(from.as_array()[0], key, to.first);
    decode(from.as_array()[1], key, to.second);
  }
  template <class T>
  requires std::is_class_v<T>
  void decode(const json::value& from, std::string_view key, T& part) {
    if (!from.is_object()) return fail(key, "an object");
    FieldReader reader(from.as_object(), fmt::format("{}{}.", place_, key));
    list_fields(reader, part);
    if (!error_) error_ = reader.error();
  }

  const json::object& object_;
  std::string place_;
  std::optional<Error> error_;
};

void append_number(std::string& out, int64_t number) {
  std::array<char, 20> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

void append_chunks(std::string& out, const RequestRecord& request) {
  out += ", \"chunks\": [";
  int64_t before = request.sent.count();
  for (const Chunk& chunk : request.chunks) {
    out += out.back() == '[' ? "[" : ",[";
    append_number(out, chunk.at_ns - before);
    out += ',';
    append_number(out, static_cast<int64_t>(chunk.num_tokens));
    out += ']';
    before = chunk.at_ns;
  }
  out += ']';
}

// none: it is no pair of a gap and a number of tokens.
std::optional<Chunk> read_chunk(const json::value& value, int64_t before) {
  if (!value.is_array() || value.as_array().size() != 2) return std::nullopt;
  const int64_t* gap = value.as_array()[0].if_int64();
  const int64_t* num_tokens = value.as_array()[1].if_int64();
  if (gap == nullptr || num_tokens == nullptr) return std::nullopt;
  if (*gap < -2 * kNanosMax || *gap > 2 * kNanosMax) return std::nullopt;
  if (*num_tokens < 0 || static_cast<uint64_t>(*num_tokens) > kChunkTokensMax) return std::nullopt;
  const int64_t at = before + *gap;
  if (at < -kNanosMax || at > kNanosMax) return std::nullopt;
  return Chunk::make(Nanos(at), *num_tokens);
}

Result<std::vector<Chunk>> read_chunks(const json::object& object, Nanos sent) {
  std::vector<Chunk> chunks;
  const json::value* found = object.if_contains("chunks");
  if (found == nullptr) return chunks;
  if (!found->is_array()) return invalid_argument("'chunks' must be an array");
  chunks.reserve(found->as_array().size());
  int64_t before = sent.count();
  for (const json::value& value : found->as_array()) {
    const std::optional<Chunk> chunk = read_chunk(value, before);
    if (!chunk) {
      return invalid_argument(
          fmt::format("'chunks[{}]' must be [nanoseconds, number of tokens]", chunks.size())
      );
    }
    before = chunk->at_ns;
    chunks.push_back(*chunk);
  }
  return chunks;
}

}  // namespace

json::object point_to_json(const PointRecord& record) {
  json::object object;
  FieldWriter writer(object);
  list_fields(writer, record);
  return object;
}

Result<PointRecord> point_from_json(const json::object& object) {
  PointRecord record;
  FieldReader reader(object);
  list_fields(reader, record);
  if (reader.error()) return *reader.error();
  return record;
}

void append_request_json(std::string& out, const RequestRecord& request) {
  json::object object;
  object["type"] = "request";
  FieldWriter writer(object);
  list_fields(writer, request);
  out += to_json_text(object);
  if (request.chunks.empty()) return;
  out.pop_back();
  append_chunks(out, request);
  out += '}';
}

Result<RequestRecord> request_from_json(const json::object& object) {
  RequestRecord request;
  FieldReader reader(object);
  list_fields(reader, request);
  if (reader.error()) return *reader.error();
  Result<std::vector<Chunk>> chunks = read_chunks(object, request.sent);
  if (!chunks) return chunks.error();
  request.chunks = *std::move(chunks);
  return request;
}

}  // namespace millrace::bench
