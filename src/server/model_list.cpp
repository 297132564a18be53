#include "server/model_list.h"

#include <algorithm>

#include "base/check.h"
#include "server/protocol/json_text.h"

namespace millrace {
namespace {

// Appends the members of one JSON object.
class ObjectText {
 public:
  explicit ObjectText(std::string& out) : out_(out) { out_ += '{'; }
  ~ObjectText() { out_ += '}'; }
  ObjectText(const ObjectText&) = delete;
  ObjectText& operator=(const ObjectText&) = delete;

  std::string& key(std::string_view name) {
    if (out_.back() != '{') out_ += ',';
    append_json_string(name, out_);
    out_ += ':';
    return out_;
  }
  void text(std::string_view name, std::string_view value) { append_json_string(value, key(name)); }
  void integer(std::string_view name, int64_t value) { append_json_integer(value, key(name)); }
  void number(std::string_view name, double value) { append_json_number(value, key(name)); }
  void boolean(std::string_view name, bool value) { key(name) += value ? "true" : "false"; }
  void null(std::string_view name) { key(name) += "null"; }
  void optional_integer(std::string_view name, std::optional<int64_t> value) {
    value ? integer(name, *value) : null(name);
  }

 private:
  std::string& out_;
};

// vLLM's, for clients of an early API that asked what a model allows.
void append_permission(const ServedModel& model, std::string& out) {
  ObjectText permission(out);
  permission.text("id", "modelperm-millrace");
  permission.text("object", "model_permission");
  permission.integer("created", model.created_s);
  permission.boolean("allow_create_engine", false);
  permission.boolean("allow_sampling", true);
  permission.boolean("allow_logprobs", true);
  permission.boolean("allow_search_indices", false);
  permission.boolean("allow_view", true);
  permission.boolean("allow_fine_tuning", false);
  permission.text("organization", "*");
  permission.null("group");
  permission.boolean("is_blocking", false);
}

void append_model(const ServedModel& model, std::string_view name, std::string& out) {
  ObjectText entry(out);
  entry.text("id", name);
  entry.text("object", "model");
  entry.integer("created", model.created_s);
  entry.text("owned_by", "millrace");
  entry.text("root", model.path);
  entry.null("parent");
  entry.integer("max_model_len", model.max_model_len);
  entry.key("permission") += '[';
  append_permission(model, out);
  out += ']';
}

std::string_view own_name(const ServedModel& model) {
  return model.names.empty() ? model.path : std::string_view(model.names.front());
}

// SGLang has one limit; ours are told apart under their flags' names.
void append_admission(const EngineLimits& limits, ObjectText& info) {
  const AdmissionLimits& admission = limits.admission;
  info.integer(
      "max_queued_requests", admission.max_num_queued_reqs.value_or(limits.max_num_live_seqs)
  );
  info.integer("max_num_live_seqs", limits.max_num_live_seqs);
  info.optional_integer("max_num_queued_reqs", admission.max_num_queued_reqs);
  info.optional_integer("max_num_queued_tokens", admission.max_num_queued_tokens);
  info.integer("max_result_bytes", admission.max_result_bytes);
}

// SGLang's length counts the token that each step gives anyway.
void append_speculation(const SpeculationStats& speculation, ObjectText& state) {
  if (speculation.num_drafts == 0) {
    state.null("avg_spec_accept_length");
  } else {
    const auto num_drafts = static_cast<double>(speculation.num_drafts);
    state.number(
        "avg_spec_accept_length",
        1.0 + static_cast<double>(speculation.num_accepted_tokens) / num_drafts
    );
  }
  state.integer("spec_num_drafts", speculation.num_drafts);
  state.integer("spec_num_draft_tokens", speculation.num_draft_tokens);
  state.integer("spec_num_accepted_tokens", speculation.num_accepted_tokens);
}

// How tokens are guessed, or null.
void append_speculative_limits(const EngineLimits& limits, ObjectText& info) {
  const auto& speculation = limits.speculation;
  if (!speculation) return info.null("speculative_algorithm");
  info.text("speculative_algorithm", "NGRAM");
  info.integer("speculative_num_draft_tokens", speculation->num_speculative_tokens);
  info.integer("prompt_lookup_max", speculation->prompt_lookup_max);
  info.integer("prompt_lookup_min", speculation->prompt_lookup_min);
}

// The state of the one engine, where SGLang lists one for each of its schedulers.
void append_internal_state(const EngineLimits& limits, const EngineStats& stats, std::string& out) {
  ObjectText state(out);
  state.number("last_gen_throughput", stats.output_tokens_per_second);
  append_speculation(stats.speculation, state);
  state.integer("effective_max_running_requests_per_dp", limits.max_num_seqs);
  state.integer("num_running_reqs", stats.num_running);
  state.integer("num_queue_reqs", stats.num_queued_seqs);
  state.integer("num_waiting_tokens", stats.num_waiting_tokens);
  state.number("computed_tokens_per_second", stats.computed_tokens_per_second);
  state.integer("num_blocks_free", stats.num_blocks_free);
  state.integer("num_blocks_cached", stats.num_blocks_cached);
  state.integer("num_preemptions", stats.num_preemptions);
  {
    ObjectText memory(state.key("memory_usage"));
    memory.integer("token_capacity", int64_t{limits.num_blocks} * limits.block_size);
  }
}

}  // namespace

std::string model_list_json(const ServedModel& model) {
  std::string out = "{\"object\":\"list\",\"data\":[";
  for (const std::string& name : model.names) {
    if (out.back() != '[') out += ',';
    append_model(model, name, out);
  }
  out += "]}";
  return out;
}

std::optional<std::string> model_json(const ServedModel& model, std::string_view name) {
  if (std::ranges::find(model.names, name) == model.names.end()) return std::nullopt;
  std::string out;
  append_model(model, name, out);
  return out;
}

std::string version_json(std::string_view version) {
  std::string out;
  ObjectText(out).text("version", version);
  return out;
}

std::string model_info_json(const ServedModel& model) {
  std::string out;
  {
    ObjectText info(out);
    info.text("model_path", model.path);
    info.text("tokenizer_path", model.tokenizer_path);
    info.text("served_model_name", own_name(model));
    info.text("model_type", model.family);
    info.boolean("is_generation", true);
    info.null("preferred_sampling_params");
    info.text("weight_version", "default");
    info.integer("max_model_len", model.max_model_len);
    info.boolean("has_image_understanding", false);
    info.boolean("has_audio_understanding", false);
  }
  return out;
}

std::string server_info_json(
    const ServedModel& model,
    const EngineLimits& limits,
    const EngineStats& stats,
    std::string_view version
) {
  std::string out;
  {
    ObjectText info(out);
    info.text("status", "ready");
    info.text("version", version);
    info.text("model_path", model.path);
    info.text("tokenizer_path", model.tokenizer_path);
    info.text("served_model_name", own_name(model));
    info.boolean("is_generation", true);
    info.integer("context_length", model.max_model_len);
    info.integer("vocab_size", limits.vocab_size);
    info.integer("max_running_requests", limits.max_num_seqs);
    append_admission(limits, info);
    info.integer("max_total_num_tokens", int64_t{limits.num_blocks} * limits.block_size);
    info.integer("page_size", limits.block_size);
    info.text("schedule_policy", name_of(limits.policy));
    info.boolean("disable_radix_cache", !limits.enable_prefix_caching);
    append_speculative_limits(limits, info);
    info.text("disaggregation_mode", "null");
    for (const std::string_view size : {"tp_size", "dp_size", "pp_size", "ep_size"}) {
      info.integer(size, 1);
    }
    info.key("internal_states") += '[';
    append_internal_state(limits, stats, out);
    out += ']';
  }
  return out;
}

}  // namespace millrace
