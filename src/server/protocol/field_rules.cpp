#include "server/protocol/field_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>

#include "base/error_reason.h"
#include "server/field_error.h"
#include "server/protocol/request_fields.h"

namespace millrace {
namespace {

// OpenAI's bounds.
constexpr size_t kLabelCharsMax = 512;
constexpr size_t kMetadataEntriesMax = 16;
constexpr size_t kMetadataKeyCharsMax = 64;
constexpr size_t kMetadataValueCharsMax = 512;

// Accepts a value that is not null, or says why not.
using Accept = Result<void> (*)(std::string_view path, const json::value& value);

Result<void> accept_null(std::string_view path, const json::value&) {
  return unsupported_field(path);
}

Result<void> accept_bool(std::string_view path, const json::value& value) {
  if (value.is_bool()) return {};
  return wrong_type(path, "true or false", value);
}

Result<void> accept_false(std::string_view path, const json::value& value) {
  if (!value.is_bool()) return wrong_type(path, "true or false", value);
  if (!value.get_bool()) return {};
  return unsupported_field(path);
}

Result<void> accept_true(std::string_view path, const json::value& value) {
  if (!value.is_bool()) return wrong_type(path, "true or false", value);
  if (value.get_bool()) return {};
  return unsupported_field(path, "it can only be true");
}

Result<void> accept_empty(std::string_view path, const json::value& value) {
  const bool is_empty = (value.is_array() && value.get_array().empty()) ||
                        (value.is_object() && value.get_object().empty()) ||
                        (value.is_string() && value.get_string().empty());
  if (is_empty) return {};
  return unsupported_field(path);
}

// A name for the client's own bookkeeping.
Result<void> accept_label(std::string_view path, const json::value& value) {
  return check_string(path, value, {.max = kLabelCharsMax});
}

Result<void> accept_one(std::string_view path, const json::value& value) {
  if (!value.is_number()) return wrong_type(path, "a number", value);
  if (value.to_number<double>() == 1.0) return {};
  return unsupported_field(path, "it can only be 1");
}

Result<void> accept_zero(std::string_view path, const json::value& value) {
  if (!value.is_number()) return wrong_type(path, "a number", value);
  if (value.to_number<double>() == 0.0) return {};
  return unsupported_field(path, "it can only be 0");
}

// An answer's pieces are never held back to be sent together.
Result<void> accept_stream_interval(std::string_view path, const json::value& value) {
  const Result<int32_t> interval = read_integer(path, value, {.min = 1});
  if (!interval) return interval.error();
  if (*interval == 1) return {};
  return unsupported_field(path, "it can only be 1");
}

// -1: no budget.
Result<void> accept_no_budget(std::string_view path, const json::value& value) {
  const Result<int32_t> budget = read_integer(path, value, {.min = -1});
  if (!budget) return budget.error();
  if (*budget == -1) return {};
  return unsupported_field(path);
}

// One of `served`; a word of `known` is unsupported, any other wrong.
Result<void> accept_words(
    std::string_view path,
    const json::value& value,
    std::initializer_list<std::string_view> served,
    std::initializer_list<std::string_view> known
) {
  if (!value.is_string()) return wrong_type(path, "a string", value);
  const std::string_view word = value.get_string();
  if (std::ranges::find(served, word) != served.end()) return {};
  if (std::ranges::find(known, word) == known.end()) {
    return wrong_value(path, fmt::format("a word that the API has, got {}", quoted(word)));
  }
  return unsupported_field(path, quoted(word));
}

Result<void> accept_service_tier(std::string_view path, const json::value& value) {
  return accept_words(path, value, {"auto", "default"}, {"flex", "scale", "priority"});
}

Result<void> accept_verbosity(std::string_view path, const json::value& value) {
  return accept_words(path, value, {"medium"}, {"low", "high"});
}

Result<void> accept_retention(std::string_view path, const json::value& value) {
  return accept_words(path, value, {"in-memory", "in_memory"}, {"24h"});
}

Result<void> accept_truncation_side(std::string_view path, const json::value& value) {
  return accept_words(path, value, {"left"}, {"right"});
}

Result<void> accept_modalities(std::string_view path, const json::value& value) {
  if (!value.is_array()) return wrong_type(path, "a list", value);
  for (const json::value& modality : value.get_array()) {
    if (!modality.is_string()) return wrong_type(path, "a list of strings", modality);
    if (modality.get_string() != "text") return unsupported_field(path, "text only");
  }
  return {};
}

Result<void> accept_metadata(std::string_view path, const json::value& value) {
  if (!value.is_object()) return wrong_type(path, "an object of strings", value);
  const json::object& entries = value.get_object();
  if (entries.size() > kMetadataEntriesMax) {
    Error error = too_many_entries(path, entries.size(), kMetadataEntriesMax);
    error.reason = error_reason::kObjectAboveMax;
    return error;
  }
  for (const json::key_value_pair& entry : entries) {
    const std::string_view key = entry.key();
    const std::string where = fmt::format("{}.{}", path, cut_text(key, kMetadataKeyCharsMax));
    if (Result<void> checked = check_string(where, json::value(key), {.max = kMetadataKeyCharsMax});
        !checked) {
      return checked;
    }
    if (Result<void> checked = check_string(where, entry.value(), {.max = kMetadataValueCharsMax});
        !checked) {
      return checked;
    }
  }
  return {};
}

// A constraint that is not kept would be worse than a refusal: only plain text is served.
Result<void> accept_response_format(std::string_view path, const json::value& value) {
  if (!value.is_object()) return wrong_type(path, "an object", value);
  const RequestFields fields(value.get_object(), "response_format.");
  const json::value* type = fields.find("type");
  if (type == nullptr) return missing_field(fields.path_of("type"), "\"text\"");
  if (Result<void> checked = accept_words(
          fields.path_of("type"),
          *type,
          {"text"},
          {"json_object", "json_schema", "structural_tag", "regex", "grammar"}
      );
      !checked) {
    return checked;
  }
  if (value.get_object().size() == 1) return {};
  return wrong_value(path, "no more than {\"type\": \"text\"}");
}

Result<void> accept_function_call(std::string_view path, const json::value& value) {
  if (!value.is_string()) return unsupported_field(path, "use tools and tool_choice");
  return accept_words(path, value, {"auto", "none"}, {});
}

constexpr uint32_t bit(BodyKind kind) {
  return static_cast<uint32_t>(kind);
}

constexpr uint32_t kC = bit(BodyKind::kCompletion);
constexpr uint32_t kH = bit(BodyKind::kChat);
constexpr uint32_t kN = bit(BodyKind::kNative);
constexpr uint32_t kS = bit(BodyKind::kNativeSampling);
constexpr uint32_t kT = bit(BodyKind::kTokenizeText);
constexpr uint32_t kM = bit(BodyKind::kTokenizeChat);
constexpr uint32_t kD = bit(BodyKind::kDetokenize);
constexpr uint32_t kA = bit(BodyKind::kAbort);

constexpr Accept kRead = nullptr;  // honoured: its reader checks the value

struct FieldRule {
  std::string_view name;
  uint32_t bodies = 0;  // that have the field
  Accept accept = kRead;
};

// By name, so that a key is found by halving.
constexpr FieldRule kRules[] = {
    {"abort_all", kA, kRead},
    {"add_generation_prompt", kH | kM, kRead},
    {"add_special_tokens", kC | kH | kT | kM, kRead},
    {"allowed_token_ids", kC | kH, kRead},
    {"audio", kH, accept_null},
    {"audio_data", kN, accept_null},
    {"background", kN, accept_false},
    {"bad_words", kC | kH, kRead},
    {"beam_width", kS, accept_one},
    {"best_of", kC, kRead},
    {"bootstrap_host", kN, accept_null},
    {"bootstrap_pair_key", kN, accept_null},
    {"bootstrap_port", kN, accept_null},
    {"bootstrap_room", kN, accept_null},
    {"cache_salt", kC | kH | kN, kRead},
    {"chat_template", kH | kM, accept_null},
    {"chat_template_kwargs", kH | kM, kRead},
    {"continue_final_message", kH | kM, kRead},
    {"conversation_id", kN, accept_label},
    {"custom_labels", kN, accept_empty},
    {"custom_logit_processor", kN, accept_null},
    {"custom_params", kS, accept_empty},
    {"data_parallel_rank", kN, accept_null},
    {"decode_tp_size", kN, accept_null},
    {"disagg_prefill_dp_rank", kN, accept_null},
    {"documents", kH, kRead},
    {"ebnf", kS, accept_null},
    {"ec_transfer_params", kC | kH, accept_null},
    {"echo", kC, kRead},
    {"echo", kH, accept_false},
    {"extra_key", kN, accept_empty},
    {"frequency_penalty", kC | kH | kS, kRead},
    {"function_call", kH, accept_function_call},
    {"functions", kH, accept_empty},
    {"guided_choice", kC | kH, accept_null},
    {"guided_decoding_backend", kC | kH, accept_null},
    {"guided_grammar", kC | kH, accept_null},
    {"guided_json", kC | kH, accept_null},
    {"guided_regex", kC | kH, accept_null},
    {"guided_whitespace_pattern", kC | kH, accept_null},
    {"ignore_eos", kC | kH | kS, kRead},
    {"image_data", kN, accept_null},
    {"include_reasoning", kH, accept_true},
    {"include_stop_str_in_output", kC | kH, kRead},
    {"input_embeds", kN, accept_null},
    {"input_ids", kN, kRead},
    {"json_schema", kS, accept_null},
    {"kv_transfer_params", kC | kH, accept_null},
    {"length_penalty", kC | kH, accept_one},
    {"log_metrics", kN, accept_bool},
    {"logit_bias", kC | kH | kS, kRead},
    {"logits_processors", kC | kH, accept_empty},
    {"logprob_start_len", kN, kRead},
    {"logprob_token_ids", kC | kH, accept_null},
    {"logprobs", kC | kH, kRead},
    {"lora_id", kN, accept_null},
    {"lora_path", kN, accept_null},
    {"max_completion_tokens", kH, kRead},
    {"max_new_tokens", kS, kRead},
    {"max_thinking_tokens", kN, accept_null},
    {"max_tokens", kC | kH, kRead},
    {"media_io_kwargs", kH | kM, accept_empty},
    {"messages", kH | kM, kRead},
    {"metadata", kC | kH, accept_metadata},
    {"min_new_tokens", kS, kRead},
    {"min_p", kC | kH | kS, kRead},
    {"min_tokens", kC | kH, kRead},
    {"mm_processor_kwargs", kC | kH | kM, accept_empty},
    {"modalities", kH | kN, accept_modalities},
    {"model", kC | kH | kN | kT | kM | kD, kRead},
    {"n", kC | kH | kS, kRead},
    {"no_logs", kN, accept_bool},
    {"no_stop_trim", kS, kRead},
    {"parallel_tool_calls", kH, accept_bool},
    {"prediction", kH, accept_null},
    {"presence_penalty", kC | kH | kS, kRead},
    {"priority", kC | kH | kN, kRead},
    {"prompt", kC | kT, kRead},
    {"prompt_cache_key", kC | kH, accept_label},
    {"prompt_cache_retention", kC | kH, accept_retention},
    {"prompt_embeds", kC, accept_empty},
    {"prompt_logprobs", kC | kH, kRead},
    {"reasoning_effort", kH, kRead},
    {"regex", kS, accept_null},
    {"repetition_detection", kC | kH, accept_null},
    {"repetition_penalty", kC | kH | kS, kRead},
    {"request_id", kC | kH, kRead},
    {"require_reasoning", kN, accept_false},
    {"response_format", kC | kH, accept_response_format},
    {"return_bytes", kN, accept_false},
    {"return_entropy", kN, accept_false},
    {"return_hidden_states", kN, accept_false},
    {"return_indexer_topk", kN, accept_false},
    {"return_logprob", kN, kRead},
    {"return_mm_kwargs", kC | kH, accept_bool},
    {"return_prompt_text", kH, accept_false},
    {"return_prompt_token_ids", kN, accept_false},
    {"return_routed_experts", kN, accept_false},
    {"return_sampling_mask", kN, accept_false},
    {"return_text_in_logprobs", kN, kRead},
    {"return_timings", kC | kH | kN, kRead},
    {"return_token_ids", kC | kH, kRead},
    {"return_token_offsets", kC | kH, accept_false},
    {"return_token_strs", kT | kM, kRead},
    {"return_tokens_as_token_ids", kC | kH, kRead},
    {"rid", kN | kA, kRead},
    {"routed_dp_rank", kN, accept_null},
    {"routed_experts_prompt_start", kC | kH, accept_zero},
    {"routing_key", kN, accept_label},
    {"safety_identifier", kC | kH, accept_label},
    {"sampling_params", kN, kRead},
    {"sampling_seed", kS, kRead},
    {"seed", kC | kH, kRead},
    {"service_tier", kC | kH, accept_service_tier},
    {"session_id", kC | kH | kN, accept_label},
    {"session_params", kN, accept_null},
    {"skip_special_tokens", kC | kH | kS, kRead},
    {"spaces_between_special_tokens", kC | kH | kS, accept_bool},
    {"stop", kC | kH | kS, kRead},
    {"stop_regex", kS, accept_empty},
    {"stop_token_ids", kC | kH | kS, kRead},
    {"store", kC | kH, accept_false},
    {"stream", kC | kH | kN, kRead},
    {"stream_interval", kC | kH | kS, accept_stream_interval},
    {"stream_options", kC | kH, kRead},
    {"structural_tag", kC | kH | kS, accept_null},
    {"structured_outputs", kC | kH, accept_empty},
    {"suffix", kC, accept_empty},
    {"temperature", kC | kH | kS, kRead},
    {"text", kN, kRead},
    {"thinking_token_budget", kC | kH, accept_no_budget},
    {"timeout_s", kC | kH | kN, kRead},
    {"token_ids_logprob", kN, accept_empty},
    {"tokens", kD, kRead},
    {"tool_choice", kH, kRead},
    {"tools", kH | kM, kRead},
    {"top_k", kC | kH | kS, kRead},
    {"top_logprobs", kH, kRead},
    {"top_logprobs_num", kN, kRead},
    {"top_p", kC | kH | kS, kRead},
    {"truncate_prompt_tokens", kC | kH, kRead},
    {"truncation_side", kC | kH, accept_truncation_side},
    {"use_audio_in_video", kN, accept_false},
    {"use_beam_search", kC | kH, accept_false},
    {"user", kC | kH, accept_label},
    {"verbosity", kH, accept_verbosity},
    {"video_data", kN, accept_null},
    {"vllm_xargs", kC | kH, accept_empty},
    {"watermarking", kC | kH, accept_false},
    {"web_search_options", kH, accept_null},
};
static_assert(std::ranges::is_sorted(kRules, {}, &FieldRule::name));

const FieldRule* find_rule(std::string_view name, BodyKind kind) {
  const FieldRule* rule = std::ranges::lower_bound(kRules, name, {}, &FieldRule::name);
  for (; rule != std::end(kRules) && rule->name == name; ++rule) {
    if ((rule->bodies & bit(kind)) != 0) return rule;
  }
  return nullptr;
}

}  // namespace

Result<void> check_fields(const json::object& object, BodyKind kind, std::string_view path) {
  for (const json::key_value_pair& entry : object) {
    const std::string_view name = entry.key();
    const FieldRule* rule = find_rule(name, kind);
    if (rule == nullptr) return unknown_field(fmt::format("{}{}", path, name));
    if (rule->accept == kRead || entry.value().is_null()) continue;
    const Result<void> accepted = rule->accept(fmt::format("{}{}", path, name), entry.value());
    if (!accepted) return accepted.error();
  }
  return {};
}

}  // namespace millrace
