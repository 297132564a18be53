#include "engine/step_replay.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <utility>

#include "base/json.h"
#include "engine/step_record.h"

namespace millrace {
namespace {

constexpr int32_t kInt32Max = std::numeric_limits<int32_t>::max();

// An integer from `low` to `high`, whichever way it was parsed.
template <class Integer>
std::optional<Integer> integer_of(const json::value& value, Integer low, Integer high) {
  Integer number = 0;
  if (const auto* is_signed = value.if_int64()) {
    if (!std::in_range<Integer>(*is_signed)) return std::nullopt;
    number = static_cast<Integer>(*is_signed);
  } else if (const auto* is_unsigned = value.if_uint64()) {
    if (!std::in_range<Integer>(*is_unsigned)) return std::nullopt;
    number = static_cast<Integer>(*is_unsigned);
  } else {
    return std::nullopt;
  }
  if (number < low || number > high) return std::nullopt;
  return number;
}

// The fields of one line. The first that is missing or wrong is the error; what is read after it
// means nothing.
class Fields {
 public:
  explicit Fields(const json::object& object) : object_(object) {}

  template <class Integer>
  Integer integer(std::string_view key, Integer low, Integer high) {
    const json::value* value = find(key);
    if (value == nullptr) return low;
    const std::optional<Integer> number = integer_of<Integer>(*value, low, high);
    if (!number) refuse(key, fmt::format("must be an integer from {} to {}", low, high));
    return number.value_or(low);
  }
  int32_t int32(std::string_view key, int32_t low, int32_t high = kInt32Max) {
    return integer<int32_t>(key, low, high);
  }
  RequestId id() {
    return RequestId{integer<uint64_t>("id", 0, std::numeric_limits<uint64_t>::max())};
  }
  TimePoint time(std::string_view key) {
    using Limits = std::numeric_limits<int64_t>;
    const std::chrono::nanoseconds time(integer<int64_t>(key, Limits::min(), Limits::max()));
    return TimePoint(std::chrono::duration_cast<Duration>(time));
  }
  bool boolean(std::string_view key) {
    const json::value* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_bool()) refuse(key, "must be true or false");
    return value->is_bool() && value->get_bool();
  }
  std::string_view text(std::string_view key) {
    const json::value* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) refuse(key, "must be a string");
    return value->is_string() ? std::string_view(value->get_string()) : std::string_view();
  }
  const json::array& list(std::string_view key) {
    static const json::array kEmpty;
    const json::value* value = find(key);
    if (value == nullptr) return kEmpty;
    if (!value->is_array()) refuse(key, "must be a list");
    return value->is_array() ? value->get_array() : kEmpty;
  }
  std::vector<TokenId> ids(std::string_view key) {
    std::vector<TokenId> ids;
    for (const json::value& value : list(key)) {
      const std::optional<TokenId> id = integer_of<TokenId>(value, 0, kInt32Max);
      if (!id) refuse(key, "must hold token ids");
      ids.push_back(id.value_or(0));
    }
    return ids;
  }
  Hash128 hash(std::string_view key) {
    constexpr size_t kNumDigits = 16;  // of each half
    const std::string_view digits = text(key);
    Hash128 hash;
    if (digits.size() != 2 * kNumDigits || !parse_hex(digits.substr(0, kNumDigits), hash.high) ||
        !parse_hex(digits.substr(kNumDigits), hash.low)) {
      refuse(key, "must be 32 hexadecimal digits");
    }
    return hash;
  }

  bool has(std::string_view key) const { return object_.contains(key); }
  // Whether the field is there and null; it needs no further reading then.
  bool is_null(std::string_view key) {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr || !value->is_null()) return false;
    ++num_known_;
    return true;
  }
  // Of all that was read, and no more: a field that is not known is an error, too.
  Result<void> check() const {
    if (error_) return *error_;
    if (num_known_ == object_.size()) return {};
    return invalid_argument("there is a field that this line does not have");
  }

 private:
  const json::value* find(std::string_view key) {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr) refuse(key, "is missing");
    ++num_known_;
    return value;
  }
  void refuse(std::string_view key, std::string_view expected) {
    if (!error_) error_ = invalid_argument(fmt::format("'{}' {}", key, expected));
  }
  static bool parse_hex(std::string_view digits, uint64_t& number) {
    const char* last = digits.data() + digits.size();
    const auto [end, code] = std::from_chars(digits.data(), last, number, 16);
    return code == std::errc() && end == last;
  }

  const json::object& object_;
  size_t num_known_ = 0;
  std::optional<Error> error_;
};

std::optional<SchedulingPolicy> policy_of(std::string_view name) {
  for (const SchedulingPolicy policy :
       {SchedulingPolicy::kFcfs, SchedulingPolicy::kPriority, SchedulingPolicy::kFair}) {
    if (name == name_of(policy)) return policy;
  }
  return std::nullopt;
}

Result<void> check_limits(const SchedulerConfig& config, const ReplayLimits& limits) {
  if (auto valid = validate(config); !valid) return valid;
  const int64_t num_slots = int64_t{config.num_blocks} * config.block_size;
  if (config.num_blocks <= limits.num_blocks_max && num_slots <= limits.num_slots_max &&
      config.num_hidden_slots <= limits.num_blocks_max) {
    return {};
  }
  return invalid_argument(fmt::format(
      "{} blocks of {} tokens and {} hidden states; at most {} blocks, {} tokens and {} hidden "
      "states are replayed",
      config.num_blocks,
      config.block_size,
      config.num_hidden_slots,
      limits.num_blocks_max,
      limits.num_slots_max,
      limits.num_blocks_max
  ));
}

// Null, or three numbers that validate() looks at.
std::optional<NgramSpeculation> speculation_of(Fields& fields) {
  if (fields.is_null("speculation")) return std::nullopt;
  std::vector<TokenId> numbers = fields.ids("speculation");
  if (numbers.size() != 3) numbers.assign(3, 0);
  return NgramSpeculation{
      .num_speculative_tokens = numbers[0],
      .prompt_lookup_max = numbers[1],
      .prompt_lookup_min = numbers[2],
  };
}

Result<SchedulerConfig> config_of(const json::object& line, const ReplayLimits& limits) {
  Fields fields(line);
  // First, so that another version is called that, whatever else is in it.
  const auto version = fields.integer<int64_t>("millrace_steps", 0, kInt32Max);
  if (version != kStepRecordVersion) {
    if (!fields.has("millrace_steps")) {
      return invalid_argument("not a recording: it begins with a line of 'millrace_steps'");
    }
    return invalid_argument(fmt::format(
        "a recording of version {}; this build replays version {}", version, kStepRecordVersion
    ));
  }
  const std::optional<SchedulingPolicy> policy = policy_of(fields.text("policy"));
  const SchedulerConfig config{
      .policy = policy.value_or(SchedulingPolicy::kFcfs),
      .max_num_batched_tokens = fields.int32("max_num_batched_tokens", 1),
      .long_prefill_token_threshold = fields.int32("long_prefill_token_threshold", 1),
      .max_num_seqs = fields.int32("max_num_seqs", 1),
      .max_logit_rows = fields.int32("max_logit_rows", 1),
      .max_model_len = fields.int32("max_model_len", 2),
      .block_size = fields.int32("block_size", 1),
      .num_blocks = fields.int32("num_blocks", 1),
      .enable_prefix_caching = fields.boolean("enable_prefix_caching"),
      .prefix_hash_key = {},
      .num_hidden_slots = fields.int32("num_hidden_slots", 0),
      .eos_token_ids = fields.ids("eos_token_ids"),
      .speculation = speculation_of(fields),
  };
  if (auto checked = fields.check(); !checked) return checked.error();
  if (!policy) return invalid_argument("'policy' must be fcfs, priority or fair");
  if (auto checked = check_limits(config, limits); !checked) return checked.error();
  return config;
}

Result<Request> request_of(const json::object& line, const ReplayLimits& limits) {
  Fields fields(line);
  fields.text("call");
  Request request;
  request.id = fields.id();
  request.prompt = fields.ids("prompt");
  SamplingParams& sampling = request.sampling;
  sampling.max_tokens = fields.int32("max_tokens", 1);
  sampling.min_tokens = fields.int32("min_tokens", 0);
  sampling.n = fields.int32("n", 1, limits.n_max);
  sampling.ignore_eos = fields.boolean("ignore_eos");
  sampling.stop_token_ids = fields.ids("stop_token_ids");
  if (!fields.is_null("prompt_logprobs")) {
    sampling.prompt_logprobs = fields.int32("prompt_logprobs", 0);
  }
  request.priority = fields.int32("priority", std::numeric_limits<int32_t>::min());
  request.arrival = fields.time("arrival");
  if (!fields.is_null("deadline")) request.deadline = fields.time("deadline");
  request.prefix_root = fields.hash("prefix_root");
  request.tenant = TenantId{fields.int32("tenant", std::numeric_limits<int32_t>::min())};
  if (auto checked = fields.check(); !checked) return checked.error();
  return request;
}

// One token, the list of several, or null for none.
Result<SampledTokens> tokens_of(const json::value& value) {
  SampledTokens tokens;
  if (value.is_null()) return tokens;
  const json::array one = {value};
  const json::array& list = value.is_array() ? value.get_array() : one;
  for (const json::value& element : list) {
    const std::optional<TokenId> token = integer_of<TokenId>(element, 0, kInt32Max);
    if (token) tokens.push_back({.id = *token, .logprobs = {}});
  }
  if (tokens.size() == list.size() && !list.empty()) return tokens;
  return invalid_argument("must be a token id, a list of them, null or error");
}

// Whether the sampler could have chosen these of a stretch: one token after each draft that was
// right.
Result<void> check_tokens(const SampledTokens& tokens, const ScheduledSequence& stretch) {
  if (stretch.samples == tokens.empty()) {
    return invalid_argument(
        fmt::format("this stretch {} token", tokens.empty() ? "gives a" : "gives no")
    );
  }
  const std::span<const TokenId> drafts = stretch.sequence->drafts();
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    if (i < drafts.size() && tokens[i].id == drafts[i]) continue;
    return invalid_argument("a token after one that was not guessed");
  }
  return {};
}

}  // namespace

Result<void> StepReplay::take(std::string_view text) {
  const Result<json::value> value = parse_json(text, {.depth_max = 8});
  if (!value) return value.error();
  if (!value->is_object()) return invalid_argument("a line must be a JSON object");
  const json::object& line = value->get_object();
  if (!has_begun()) return begin(line);

  const json::value* call = line.if_contains("call");
  const std::string_view name =
      call != nullptr && call->is_string() ? std::string_view(call->get_string()) : "";
  if (name == "commit") return commit(line);
  if (name != "add" && name != "cancel" && name != "plan") {
    return invalid_argument("'call' must be add, cancel, plan or commit");
  }
  if (plan_) return invalid_argument("a plan is followed by its commit");
  if (name == "add") return add(line);
  if (name == "cancel") return cancel(line);
  return plan(line, text);
}

Result<void> StepReplay::begin(const json::object& line) {
  const Result<SchedulerConfig> config = config_of(line, options_.limits);
  if (!config) return config.error();
  scheduler_ = std::make_unique<Scheduler>(*config);
  return {};
}

Result<void> StepReplay::add(const json::object& line) {
  Result<Request> request = request_of(line, options_.limits);
  if (!request) return request.error();
  const RequestId id = request->id;
  const int32_t n = request->sampling.n;
  const SchedulerStats stats = scheduler_->stats();
  if (stats.num_running + stats.num_waiting > options_.limits.num_live_seqs_max - n) {
    return invalid_argument(fmt::format(
        "more than {} sequences at once are not replayed", options_.limits.num_live_seqs_max
    ));
  }
  if (!live_.try_emplace(id, n).second) {
    return invalid_argument(fmt::format("request {} is there already", id.value));
  }
  ++num_requests_;
  return scheduler_->add(*std::move(request));
}

Result<void> StepReplay::cancel(const json::object& line) {
  Fields fields(line);
  fields.text("call");
  if (!fields.has("id")) {
    if (auto checked = fields.check(); !checked) return checked;
    scheduler_->cancel_all();
    return {};
  }
  const RequestId id = fields.id();
  const bool is_whole = !fields.has("choice");
  const int32_t choice = is_whole ? 0 : fields.int32("choice", 0);
  if (auto checked = fields.check(); !checked) return checked;
  if (is_whole) {
    scheduler_->cancel(id);
    return {};
  }
  const auto found = live_.find(id);
  if (found == live_.end()) return {};  // over
  if (choice >= found->second) {
    return invalid_argument(fmt::format("request {} has no choice {}", id.value, choice));
  }
  scheduler_->cancel(id, choice);
  return {};
}

Result<void> StepReplay::plan(const json::object& line, std::string_view text) {
  const json::value* time = line.if_contains("now");
  const TimePoint now = Fields(line).time("now");
  if (time == nullptr || !(time->is_int64() || time->is_uint64())) {
    return invalid_argument("'now' must be an integer");
  }
  const TimePoint begin = options_.now();
  StepPlan plan = scheduler_->plan(now);
  plan_time_ = options_.now() - begin;
  if (options_.checks_invariants) scheduler_->check_invariants();

  std::string computed;
  append_plan_line(plan, now, computed);
  computed.pop_back();
  // Text first, since it is the usual case; another writer may have other blanks.
  if (computed != text && *parse_json(computed) != json::value(line)) {
    difference_ = {.recorded = std::string(text), .computed = std::move(computed)};
    return invalid_argument("another plan came out than was recorded");
  }
  forget(plan.dropped);
  if (!plan.is_empty()) plan_ = std::move(plan);
  return {};
}

Result<void> StepReplay::commit(const json::object& line) {
  if (!plan_) return invalid_argument("a commit without a plan that computes something");
  Fields fields(line);
  fields.text("call");
  const TimePoint now = fields.time("now");
  const json::array& list = fields.list("outcomes");
  if (auto checked = fields.check(); !checked) return checked;
  const Result<std::vector<StepOutcome>> outcomes = outcomes_of(list);
  if (!outcomes) return outcomes.error();

  const TimePoint begin = options_.now();
  const std::vector<FinishedEvent> finished = scheduler_->commit(*plan_, *outcomes, now);
  step_times_.push_back(plan_time_ + (options_.now() - begin));
  plan_.reset();
  if (options_.checks_invariants) scheduler_->check_invariants();
  forget(finished);
  return {};
}

Result<std::vector<StepOutcome>> StepReplay::outcomes_of(const json::array& list) const {
  if (list.size() != plan_->scheduled.size()) {
    return invalid_argument(
        fmt::format("{} outcomes; the plan has {} stretches", list.size(), plan_->scheduled.size())
    );
  }
  std::vector<StepOutcome> outcomes;
  outcomes.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const json::value& value = list[i];
    if (value.is_string() && value.get_string() == "error") {
      outcomes.emplace_back(Error{ErrorCode::kInternal, "as recorded"});
      continue;
    }
    auto tokens = tokens_of(value);
    if (!tokens) return invalid_argument(fmt::format("outcomes[{}] {}", i, tokens.error().message));
    if (auto checked = check_tokens(*tokens, plan_->scheduled[i]); !checked) {
      return invalid_argument(fmt::format("outcomes[{}]: {}", i, checked.error().message));
    }
    if (tokens->empty()) {
      outcomes.emplace_back(NothingSampled{});
    } else {
      outcomes.emplace_back(*std::move(tokens));
    }
  }
  return outcomes;
}

void StepReplay::forget(const std::vector<FinishedEvent>& finished) {
  for (const FinishedEvent& event : finished) {
    if (event.num_choices_unfinished == 0) live_.erase(event.request);
  }
}

ReplaySummary StepReplay::summary() const {
  return {
      .num_requests = num_requests_,
      .num_steps = static_cast<int64_t>(step_times_.size()),
      .scheduler = scheduler_ ? scheduler_->stats() : SchedulerStats{},
      .step_times = step_times_,
  };
}

}  // namespace millrace
