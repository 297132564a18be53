#include "server/protocol/openai_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/error_reason.h"
#include "server/field_error.h"

namespace millrace {
namespace {

constexpr size_t kRequestIdBytesMax = 128;
constexpr size_t kCacheSaltCharsMax = 1024;

void read_stream_options(RequestFields& fields, GenerationRequest& request) {
  const json::object* object = fields.object("stream_options");
  if (object == nullptr || object->empty()) return;
  if (!request.is_stream) {
    return fields.refuse(wrong_value("stream_options", "left out without stream"));
  }
  RequestFields options(*object, "stream_options.");
  for (const json::key_value_pair& entry : *object) {
    const std::string_view key = entry.key();
    const bool is_known =
        key == "include_usage" || key == "continuous_usage_stats" || key == "include_obfuscation";
    if (!is_known) return fields.refuse(unknown_field(options.path_of(key)));
  }
  request.include_usage = options.boolean("include_usage").value_or(false);
  request.continuous_usage_stats = options.boolean("continuous_usage_stats").value_or(false);
  if (request.continuous_usage_stats && !request.include_usage) {
    options.refuse(wrong_value(
        "stream_options.continuous_usage_stats", "left out or false without include_usage"
    ));
  }
  if (options.boolean("include_obfuscation").value_or(false)) {
    options.refuse(unsupported_field("stream_options.include_obfuscation"));
  }
  if (auto read = options.result(); !read) fields.refuse(read.error());
}

}  // namespace

Result<std::string> read_model(RequestFields& fields, const RequestContext& context) {
  const json::value* value = fields.find("model");
  const std::vector<std::string>& served = context.served_model_names;
  if (value == nullptr) return served.empty() ? std::string() : served.front();
  if (!value->is_string()) return wrong_type("model", "a string", *value);
  const std::string_view name = value->get_string();
  if (std::ranges::find(served, name) != served.end()) return std::string(name);
  return Error{
      ErrorCode::kNotFound,
      fmt::format("the model {} does not exist", quoted(name)),
      "model",
      error_reason::kModelNotFound,
  };
}

Result<std::string> read_request_id(std::string_view path, const json::value& value) {
  if (!value.is_string()) return wrong_type(path, "a string", value);
  const std::string_view id = value.get_string();
  const bool is_valid = !id.empty() && id.size() <= kRequestIdBytesMax &&
                        std::ranges::all_of(id, [](char c) { return c > ' ' && c < '\x7F'; });
  if (is_valid) return std::string(id);
  return wrong_value(
      path, fmt::format("1 to {} visible ASCII characters without spaces", kRequestIdBytesMax)
  );
}

Result<void> read_openai_fields(
    const json::object& body, const RequestContext& context, GenerationRequest& request
) {
  RequestFields fields(body);
  Result<std::string> model = read_model(fields, context);
  if (!model) return model.error();
  request.model = *std::move(model);
  if (const json::value* id = fields.find("request_id")) {
    Result<std::string> read = read_request_id("request_id", *id);
    if (!read) return read.error();
    request.request_id = *std::move(read);
  }
  request.is_stream = fields.boolean("stream").value_or(false);
  read_stream_options(fields, request);
  request.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  request.return_tokens_as_token_ids = fields.boolean("return_tokens_as_token_ids").value_or(false);
  request.return_timings = fields.boolean("return_timings").value_or(false);
  request.cache_salt =
      fields.string("cache_salt", {.min = 1, .max = kCacheSaltCharsMax}).value_or("");
  if (auto read = fields.result(); !read) return read;

  apply_defaults(context.defaults, request.fields.sampling);
  if (auto read = read_generation_fields(body, context.text.tokenizer, request.fields); !read) {
    return read;
  }
  if (request.is_stream && request.fields.sampling.prompt_logprobs) {
    return wrong_value("prompt_logprobs", "left out of a stream");
  }
  return {};
}

Result<void> read_truncation(
    RequestFields& fields,
    const RequestContext& context,
    int32_t num_output_tokens,
    GenerationRequest& request
) {
  const int32_t num_tokens_max = context.limits.num_sequence_tokens_max;
  request.truncate_prompt_tokens =
      fields.integer("truncate_prompt_tokens", {.min = -1, .max = num_tokens_max});
  if (request.truncate_prompt_tokens == 0) {
    fields.refuse(wrong_value("truncate_prompt_tokens", "-1 or at least 1"));
  } else if (request.truncate_prompt_tokens == -1) {
    const int32_t room = num_tokens_max - std::clamp(num_output_tokens, 1, num_tokens_max);
    request.truncate_prompt_tokens = std::max(room, 1);
  }
  return fields.result();
}

std::string_view prompt_field(const GenerationRequest& request) {
  if (request.api == Api::kChat) return "messages";
  if (request.api == Api::kCompletions) return "prompt";
  return std::holds_alternative<std::string>(request.prompts.front()) ? "text" : "input_ids";
}

Result<void> check_request(const GenerationRequest& request, const RequestContext& context) {
  const SamplingLimits limits{
      .vocab_size = context.limits.vocab_size,
      .n_max = context.limits.n_max,
      .logprobs_max = context.limits.logprobs_max,
  };
  if (auto valid = validate(request.fields.sampling, limits); !valid) return valid;
  if (request.fields.priority != 0 && context.limits.policy != SchedulingPolicy::kPriority) {
    return unsupported_field(
        "priority", "the server does not schedule by it: --scheduling-policy priority does"
    );
  }
  const int64_t num_choices =
      static_cast<int64_t>(request.prompts.size()) * request.fields.sampling.n;
  if (num_choices > context.limits.max_num_live_seqs) {
    const bool are_prompts_too_many =
        std::ssize(request.prompts) > context.limits.max_num_live_seqs;
    return invalid_argument(
        fmt::format(
            "{} prompts with n = {} make {} choices, and the server holds at most {}",
            request.prompts.size(),
            request.fields.sampling.n,
            num_choices,
            context.limits.max_num_live_seqs
        ),
        std::string(are_prompts_too_many ? prompt_field(request) : "n"),
        are_prompts_too_many ? error_reason::kArrayAboveMax : error_reason::kIntegerAboveMax
    );
  }
  return {};
}

}  // namespace millrace
