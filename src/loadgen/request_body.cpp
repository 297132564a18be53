#include "loadgen/request_body.h"

#include <fmt/format.h>

#include <algorithm>

#include "http/characters.h"

namespace millrace::bench {
namespace {

// Without the quotes.
std::string escaped(std::string_view text) {
  std::string quoted = json::serialize(json::string_view(text.data(), text.size()));
  return quoted.substr(1, quoted.size() - 2);
}

void merge(const json::object& from, json::object& into) {
  for (const auto& field : from) {
    json::value& there = into[field.key()];
    const bool is_merged = there.is_object() && field.value().is_object();
    if (is_merged) {
      merge(field.value().get_object(), there.get_object());
    } else {
      there = field.value();
    }
  }
}

void add_sampling(const SamplingFields& sampling, json::object& out) {
  if (sampling.temperature) out["temperature"] = *sampling.temperature;
  if (sampling.top_p) out["top_p"] = *sampling.top_p;
  if (sampling.top_k) out["top_k"] = *sampling.top_k;
  if (sampling.ignores_eos) out["ignore_eos"] = true;
}

json::object fixed_fields(const Target& target, bool sends_usage_deltas) {
  json::object fields;
  if (target.protocol == Protocol::kGenerate) {
    json::object sampling;
    add_sampling(target.sampling, sampling);
    fields["sampling_params"] = std::move(sampling);
    fields["stream"] = target.is_streamed;
    return fields;
  }
  if (!target.model.empty()) fields["model"] = target.model;
  add_sampling(target.sampling, fields);
  fields["stream"] = target.is_streamed;
  if (target.is_streamed && target.wants_usage) {
    json::object options{{"include_usage", true}};
    if (sends_usage_deltas) options["continuous_usage_stats"] = true;
    fields["stream_options"] = std::move(options);
  }
  if (target.wants_token_ids) fields["return_token_ids"] = true;
  return fields;
}

Result<void> check_field(const http::Header& header) {
  const bool is_name = !header.name.empty() &&
                       std::all_of(header.name.begin(), header.name.end(), http::is_token_char);
  const bool is_value = std::all_of(header.value.begin(), header.value.end(), http::is_field_char);
  if (is_name && is_value) return {};
  return invalid_argument(fmt::format("the header '{}' is malformed", header.name), "headers");
}

// The fields that this program sends of itself, unless the user sends them.
std::vector<http::Header> own_fields(const Target& target) {
  std::vector<http::Header> fields = {
      {"host", target.url.host_field()},
      {"user-agent", "millrace-bench"},
      {"accept", target.is_streamed ? "text/event-stream" : "application/json"},
      {"content-type", "application/json"},
  };
  if (!target.api_key.empty()) fields.push_back({"authorization", "Bearer " + target.api_key});
  std::erase_if(fields, [&](const http::Header& own) {
    return std::ranges::any_of(target.headers, [&](const http::Header& theirs) {
      return http::equals_ignoring_case(own.name, theirs.name);
    });
  });
  return fields;
}

}  // namespace

Result<void> Conversation::add_prompt(const PlannedPrompt& prompt) {
  const bool is_chat = protocol_ == Protocol::kChat;
  if (const auto* ids = std::get_if<std::vector<TokenId>>(&prompt)) {
    if (is_chat) return unsupported("the chat endpoint takes no token ids");
    if (!inside_.empty()) return unsupported("a later turn cannot be token ids: answers are text");
    add_ids(*ids);
    return {};
  }
  if (is_ids_) return unsupported("a turn of text cannot follow one of token ids");
  if (const auto* text = std::get_if<std::string>(&prompt)) {
    is_chat ? add_message("user", *text) : add_text(*text);
    return {};
  }
  for (const PlannedMessage& message : *std::get_if<std::vector<PlannedMessage>>(&prompt)) {
    if (is_chat) {
      add_message(message.role, message.content);
    } else {
      if (!inside_.empty()) add_text("\n");
      add_text(message.content);
    }
  }
  return {};
}

void Conversation::add_answer(std::string_view text) {
  if (protocol_ == Protocol::kChat) {
    add_message("assistant", text);
  } else {
    add_text(text);
  }
}

std::string_view Conversation::field() const {
  switch (protocol_) {
    case Protocol::kCompletions:
      return "prompt";
    case Protocol::kChat:
      return "messages";
    case Protocol::kGenerate:
      break;
  }
  return is_ids_ ? "input_ids" : "text";
}

std::string Conversation::json() const {
  const bool is_list = is_ids_ || protocol_ == Protocol::kChat;
  std::string json;
  json.reserve(inside_.size() + 2);
  json += is_list ? '[' : '"';
  json += inside_;
  json += is_list ? ']' : '"';
  return json;
}

void Conversation::add_message(std::string_view role, std::string_view content) {
  if (!inside_.empty()) inside_ += ',';
  inside_.append(R"({"role":")").append(escaped(role));
  inside_.append(R"(","content":")").append(escaped(content)).append(R"("})");
}

void Conversation::add_text(std::string_view text) {
  inside_ += escaped(text);
}

void Conversation::add_ids(const std::vector<TokenId>& ids) {
  is_ids_ = true;
  inside_.reserve(ids.size() * 6);
  for (const TokenId id : ids) {
    if (!inside_.empty()) inside_ += ',';
    fmt::format_to(std::back_inserter(inside_), "{}", id);
  }
}

Result<RequestWriter> RequestWriter::make(const Target& target, bool sends_usage_deltas) {
  RequestWriter writer;
  writer.protocol_ = target.protocol;
  writer.ignores_eos_ = target.sampling.ignores_eos;
  writer.fields_ = fixed_fields(target, sends_usage_deltas);
  writer.extra_ = target.extra_body;
  const std::string path = target.url.path + target.endpoint;
  const bool is_path =
      path.starts_with('/') && std::all_of(path.begin(), path.end(), http::is_visible);
  if (!is_path) {
    return invalid_argument(fmt::format("'{}' is no path of an endpoint", path), "endpoint");
  }
  writer.head_ = fmt::format("POST {} HTTP/1.1\r\n", path);
  std::vector<http::Header> fields = own_fields(target);
  fields.insert(fields.end(), target.headers.begin(), target.headers.end());
  for (const http::Header& field : fields) {
    if (Result<void> checked = check_field(field); !checked) return checked.error();
    writer.head_ += fmt::format("{}: {}\r\n", field.name, field.value);
  }
  writer.head_ += "content-length: ";
  return writer;
}

std::string RequestWriter::body(const Conversation& conversation, int64_t num_output_tokens) const {
  json::object fields = fields_;
  const bool is_native = protocol_ == Protocol::kGenerate;
  json::object& sampling = is_native ? fields["sampling_params"].as_object() : fields;
  // `max_tokens` is what every server understands, of chats too.
  sampling[is_native ? "max_new_tokens" : "max_tokens"] = num_output_tokens;
  if (ignores_eos_) sampling[is_native ? "min_new_tokens" : "min_tokens"] = num_output_tokens;
  merge(extra_, fields);
  std::string text = to_json_text(fields);
  // The prompt, which is JSON already, goes in front of the other fields.
  if (!fields.contains(conversation.field())) {
    const std::string_view separator = fields.empty() ? "" : ",";
    text = fmt::format(
        R"({{"{}":{}{}{})",
        conversation.field(),
        conversation.json(),
        separator,
        std::string_view(text).substr(1)
    );
  }
  return text;
}

std::string RequestWriter::write(const Conversation& conversation, int64_t num_output_tokens)
    const {
  const std::string text = body(conversation, num_output_tokens);
  return fmt::format("{}{}\r\n\r\n{}", head_, text.size(), text);
}

}  // namespace millrace::bench
