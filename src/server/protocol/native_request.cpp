#include "server/protocol/native_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "server/field_error.h"
#include "server/protocol/field_rules.h"
#include "server/protocol/openai_fields.h"
#include "server/protocol/prompt_list.h"
#include "server/protocol/request_fields.h"

namespace millrace {
namespace {

constexpr int32_t kMaxNewTokensDefault = 128;
constexpr std::string_view kSamplingPath = "sampling_params.";

// The sampling parameters under their names in this API and in generation_fields.h; those that are
// missing here have one name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kRenamed = {{
    {"max_new_tokens", "max_tokens"},
    {"min_new_tokens", "min_tokens"},
    {"no_stop_trim", "include_stop_str_in_output"},
    {"sampling_seed", "seed"},
}};

// Errors are worded with the fields' usual names.
Error in_native_words(Error error) {
  std::string_view usual = error.where;
  usual = usual.substr(0, usual.find_first_of(".["));
  std::string_view native = usual;
  for (const auto& [theirs, ours] : kRenamed) {
    if (ours == usual) native = theirs;
  }
  const std::string path =
      fmt::format("{}{}{}", kSamplingPath, native, error.where.substr(usual.size()));
  if (error.message.starts_with(error.where)) {
    error.message.replace(0, error.where.size(), path);
  }
  error.where = path;
  return error;
}

// One value for the whole batch: an element of a list that holds the same for each prompt.
Result<const json::value*> same_for_all(
    std::string_view key, const json::object& body, size_t num_prompts
) {
  const json::value* value = RequestFields(body).find(key);
  if (value == nullptr || !value->is_array()) return value;
  const json::array& entries = value->get_array();
  if (entries.size() != num_prompts) {
    return wrong_value(
        key,
        fmt::format(
            "a value, or a list of one for each prompt: {} of them, got {}",
            num_prompts,
            entries.size()
        )
    );
  }
  const bool is_same = std::ranges::all_of(entries, [&](const json::value& entry) {
    return entry == entries.front();
  });
  if (!is_same) return unsupported_field(key, "one value serves the whole batch");
  return entries.front().is_null() ? nullptr : &entries.front();
}

Result<void> read_sampling(
    const json::object& body, const RequestContext& context, GenerationRequest& request
) {
  SamplingParams& sampling = request.fields.sampling;
  apply_defaults(context.defaults, sampling);
  request.max_tokens = kMaxNewTokensDefault;
  const Result<const json::value*> given =
      same_for_all("sampling_params", body, request.prompts.size());
  if (!given) return given.error();
  json::object params;
  if (*given != nullptr) {
    if (!(*given)->is_object()) return wrong_type("sampling_params", "an object", **given);
    params = (*given)->get_object();
  }
  if (auto known = check_fields(params, BodyKind::kNativeSampling, kSamplingPath); !known) {
    return known;
  }
  RequestFields fields(params, kSamplingPath);
  request.max_tokens = fields.integer("max_new_tokens", {.min = 1});
  if (auto read = fields.result(); !read) return read;
  // null asks for as much as fits.
  request.max_tokens_default = params.contains("max_new_tokens")
                                   ? std::max(context.limits.num_sequence_tokens_max, 1)
                                   : kMaxNewTokensDefault;
  for (const auto& [theirs, ours] : kRenamed) {
    json::value* value = params.if_contains(theirs);
    if (value != nullptr) params[ours] = json::value(*value);
  }
  if (auto read = read_generation_fields(params, context.text.tokenizer, request.fields); !read) {
    return in_native_words(read.error());
  }
  sampling.max_tokens = request.max_tokens.value_or(request.max_tokens_default);
  return {};
}

Result<void> read_prompt_field(
    RequestFields& fields, const RequestContext& context, GenerationRequest& request
) {
  const json::value* text = fields.find("text");
  const json::value* ids = fields.find("input_ids");
  if (text == nullptr && ids == nullptr) return missing_field("text", "text or input_ids");
  if (text != nullptr && ids != nullptr) return wrong_value("input_ids", "left out with text");
  Result<PromptList> list =
      text != nullptr
          ? read_text_prompts("text", *text, context.num_prompts_max)
          : read_id_prompts("input_ids", *ids, context.num_prompts_max, context.limits.vocab_size);
  if (!list) return list.error();
  request.prompts = std::move(list->prompts);
  request.is_prompt_list = list->is_list;
  return {};
}

// return_logprob, top_logprobs_num and logprob_start_len: -1 for the output alone, 0 for the prompt
// too.
Result<void> read_logprobs(const json::object& body, GenerationRequest& request) {
  constexpr std::array<std::string_view, 3> kKeys = {
      "return_logprob", "top_logprobs_num", "logprob_start_len"};
  json::object one;
  for (const std::string_view key : kKeys) {
    const Result<const json::value*> value = same_for_all(key, body, request.prompts.size());
    if (!value) return value.error();
    if (*value != nullptr) one[key] = **value;
  }
  RequestFields fields(one);
  const bool is_wanted = fields.boolean("return_logprob").value_or(false);
  const int32_t num_top = fields.integer("top_logprobs_num", {.min = 0}).value_or(0);
  const int32_t start = fields.integer("logprob_start_len", {.min = -1}).value_or(-1);
  if (auto read = fields.result(); !read) return read;
  if (!is_wanted) return {};
  if (start > 0) return unsupported_field("logprob_start_len", "it can only be -1 or 0");
  SamplingParams& sampling = request.fields.sampling;
  sampling.logprobs = num_top;
  if (start == 0) sampling.prompt_logprobs = num_top;
  return {};
}

Result<void> read_rid(RequestFields& fields, GenerationRequest& request) {
  const json::value* rid = fields.find("rid");
  if (rid == nullptr) return {};
  const json::array* list = rid->if_array();
  if (list != nullptr && list->size() != 1) {
    return unsupported_field("rid", "one id names the whole request");
  }
  Result<std::string> id = read_request_id("rid", list == nullptr ? *rid : list->front());
  if (!id) return id.error();
  request.request_id = *std::move(id);
  return {};
}

// This API's names for what check_request() refuses.
Error renamed_range_error(Error error) {
  if (error.where == "logprobs" || error.where == "prompt_logprobs") {
    error.message.replace(0, error.where.size(), "top_logprobs_num");
    error.where = "top_logprobs_num";
    return error;
  }
  const bool is_outer =
      error.where == "priority" || error.where == "text" || error.where == "input_ids";
  return is_outer ? error : in_native_words(std::move(error));
}

}  // namespace

Result<GenerationRequest> read_native_request(
    std::string_view body, const RequestContext& context
) {
  Result<json::object> object = parse_body(body);
  if (!object) return object.error();
  if (auto known = check_fields(*object, BodyKind::kNative); !known) return known.error();
  RequestFields fields(*object);
  GenerationRequest request{.api = Api::kNative};
  request.fields.continues_prompt = true;
  Result<std::string> model = read_model(fields, context);
  if (!model) return model.error();
  request.model = *std::move(model);
  if (auto read = read_rid(fields, request); !read) return read.error();
  request.is_stream = fields.boolean("stream").value_or(false);
  request.return_timings = fields.boolean("return_timings").value_or(false);
  request.return_text_in_logprobs = fields.boolean("return_text_in_logprobs").value_or(false);
  request.cache_salt = fields.string("cache_salt", {.min = 0, .max = 1024}).value_or("");
  if (auto read = fields.result(); !read) return read.error();
  // Beside sampling_params, not in it.
  json::object outer;
  for (const std::string_view key : {"priority", "timeout_s"}) {
    if (const json::value* value = fields.find(key)) outer[key] = *value;
  }
  if (auto read = read_generation_fields(outer, context.text.tokenizer, request.fields); !read) {
    return read.error();
  }
  if (auto read = read_prompt_field(fields, context, request); !read) return read.error();
  if (auto read = read_sampling(*object, context, request); !read) return read.error();
  if (auto read = read_logprobs(*object, request); !read) return read.error();
  // Several choices are answered with a list too.
  if (request.fields.sampling.n > 1) request.is_prompt_list = true;
  if (auto checked = check_request(request, context); !checked) {
    return renamed_range_error(checked.error());
  }
  return request;
}

}  // namespace millrace
