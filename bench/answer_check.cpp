#include "bench/answer_check.h"

#include <fmt/format.h>

#include <optional>

#include "base/json.h"

namespace millrace::bench {
namespace {

constexpr std::string_view kPrefix = "data: ";

Error wrong(std::string_view what, std::string_view body) {
  return invalid_argument(fmt::format("{}: {}", what, body.substr(0, 300)));
}

// The data of each event of `body`, one at a time.
class Events {
 public:
  explicit Events(std::string_view body) : rest_(body) {}

  // nullopt: no whole event is left.
  Result<std::optional<std::string_view>> next() {
    const size_t end = rest_.find("\n\n");
    if (end == rest_.npos) return std::optional<std::string_view>();
    const std::string_view event = rest_.substr(0, end);
    if (!event.starts_with(kPrefix)) return wrong("no event of data", event);
    rest_.remove_prefix(end + 2);
    return std::optional(event.substr(kPrefix.size()));
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

const json::object* object_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? nullptr : value->if_object();
}

std::string_view string_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_string()) return {};
  return value->get_string();
}

int64_t integer_at(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_int64() ? value->get_int64() : -1;
}

// The only element of "choices"; nullptr if there is none.
Result<const json::object*> only_choice(const json::object& answer, std::string_view text) {
  const json::value* value = answer.if_contains("choices");
  if (value == nullptr || !value->is_array()) return wrong("no choices", text);
  const json::array& choices = value->get_array();
  if (choices.empty()) return static_cast<const json::object*>(nullptr);
  if (choices.size() != 1 || !choices[0].is_object()) return wrong("not one choice", text);
  return &choices[0].get_object();
}

// What a choice says, in either API's shape, streamed or whole.
std::string_view text_of(const json::object& choice) {
  if (const json::object* delta = object_at(choice, "delta")) return string_at(*delta, "content");
  if (const json::object* message = object_at(choice, "message")) {
    return string_at(*message, "content");
  }
  return string_at(choice, "text");
}

struct StreamState {
  const Asked& asked;
  int64_t num_texts = 0;
  bool is_finished = false;
  bool has_usage = false;
  StreamFacts facts;
};

Result<void> take_usage(const json::object& answer, std::string_view text, StreamState& state) {
  const json::object* usage = object_at(answer, "usage");
  if (usage == nullptr) return {};
  if (integer_at(*usage, "completion_tokens") != state.asked.num_output_tokens) {
    return wrong(fmt::format("not the {} tokens asked for", state.asked.num_output_tokens), text);
  }
  state.facts.num_prompt_tokens = integer_at(*usage, "prompt_tokens");
  state.has_usage = true;
  return {};
}

Result<void> take_event(std::string_view text, StreamState& state) {
  const Result<json::value> value = parse_json(text);
  if (!value || !value->is_object()) return wrong("an event is no JSON object", text);
  const json::object& answer = value->get_object();
  if (Result<void> taken = take_usage(answer, text, state); !taken) return taken;
  const Result<const json::object*> choice = only_choice(answer, text);
  if (!choice) return choice.error();
  if (*choice == nullptr) return {};
  if (!text_of(**choice).empty()) {
    if (state.is_finished) return wrong("text after the finish_reason", text);
    ++state.num_texts;
  }
  const std::string_view reason = string_at(**choice, "finish_reason");
  if (reason.empty()) return {};
  if (state.is_finished) return wrong("a second finish_reason", text);
  if (reason != "length") return wrong("the finish_reason is not \"length\"", text);
  state.is_finished = true;
  return {};
}

}  // namespace

Result<StreamFacts> check_stream(std::string_view body, const Asked& asked) {
  StreamState state{.asked = asked};
  Events events(body);
  bool is_done = false;
  while (true) {
    const Result<std::optional<std::string_view>> event = events.next();
    if (!event) return event.error();
    if (!*event) break;
    if (is_done) return wrong("an event after [DONE]", **event);
    ++state.facts.num_events;
    is_done = **event == "[DONE]";
    if (is_done) continue;
    if (Result<void> taken = take_event(**event, state); !taken) return taken.error();
  }
  if (!events.rest().empty()) return wrong("a cut event", events.rest());
  if (!is_done) return wrong("no [DONE]", body);
  if (!state.is_finished) return wrong("no finish_reason", body);
  if (!state.has_usage) return wrong("no usage", body);
  if (state.num_texts != asked.num_output_tokens) {
    return wrong(
        fmt::format("{} events with text, not {}", state.num_texts, asked.num_output_tokens), body
    );
  }
  return state.facts;
}

Result<void> check_stream_beginning(std::string_view body) {
  Events events(body);
  const Asked asked;
  StreamState state{.asked = asked};
  int64_t num_events = 0;
  while (true) {
    const Result<std::optional<std::string_view>> event = events.next();
    if (!event) return event.error();
    if (!*event) break;
    ++num_events;
    if (Result<void> taken = take_event(**event, state); !taken) return taken.error();
  }
  if (state.is_finished) return wrong("finished too early", body);
  // A chat begins with an event that has a role and no text.
  if (state.num_texts + 1 < num_events) {
    return wrong(fmt::format("{} texts in {} events", state.num_texts, num_events), body);
  }
  return {};
}

Result<void> check_answer(std::string_view body, const Asked& asked) {
  const Result<json::value> value = parse_json(body);
  if (!value || !value->is_object()) return wrong("the answer is no JSON object", body);
  StreamState state{.asked = asked};
  if (Result<void> taken = take_usage(value->get_object(), body, state); !taken) return taken;
  if (!state.has_usage) return wrong("no usage", body);
  const Result<const json::object*> choice = only_choice(value->get_object(), body);
  if (!choice) return choice.error();
  if (*choice == nullptr || text_of(**choice).empty()) return wrong("no text", body);
  if (string_at(**choice, "finish_reason") != "length") return wrong("not \"length\"", body);
  return {};
}

Result<void> check_refusal(std::string_view body) {
  const Result<json::value> value = parse_json(body);
  if (!value || !value->is_object()) return wrong("the refusal is no JSON object", body);
  const json::object* error = object_at(value->get_object(), "error");
  if (error == nullptr || string_at(*error, "message").empty() ||
      string_at(*error, "type").empty() || !error->contains("param") || !error->contains("code")) {
    return wrong("not OpenAI's shape of an error", body);
  }
  return {};
}

Result<std::string> first_model_id(std::string_view body) {
  const Result<json::value> value = parse_json(body);
  if (!value || !value->is_object()) return wrong("no list of models", body);
  const json::value* data = value->get_object().if_contains("data");
  if (data == nullptr || !data->is_array() || data->get_array().empty() ||
      !data->get_array()[0].is_object()) {
    return wrong("no list of models", body);
  }
  const std::string_view id = string_at(data->get_array()[0].get_object(), "id");
  if (id.empty()) return wrong("a model without an id", body);
  return std::string(id);
}

}  // namespace millrace::bench
