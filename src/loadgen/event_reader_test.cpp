#include "loadgen/event_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json.h"
#include "base/rng.h"
#include "loadgen/event_cases.h"
#include "loadgen/json_scan.h"
#include "results/record_json.h"

namespace millrace::bench {
namespace {

std::string unescaped(std::string_view raw) {
  std::string text;
  append_unescaped(raw, text);
  return text;
}

void expect_same(const EventFields& fields, const EventCase& expected, const std::string& what) {
  EXPECT_EQ(fields.has_choices, expected.has_choices) << what;
  EXPECT_EQ(fields.is_native, expected.is_native) << what;
  EXPECT_EQ(unescaped(fields.text), expected.text) << what;
  EXPECT_EQ(unescaped(fields.reasoning), expected.reasoning) << what;
  EXPECT_EQ(fields.has_other_output, expected.has_other_output) << what;
  EXPECT_EQ(unescaped(fields.finish_reason), expected.finish_reason) << what;
  EXPECT_EQ(fields.completion_tokens, expected.completion_tokens) << what;
  EXPECT_EQ(fields.prompt_tokens, expected.prompt_tokens) << what;
  EXPECT_EQ(fields.cached_tokens, expected.cached_tokens) << what;
  EXPECT_EQ(fields.num_token_ids, expected.num_token_ids) << what;
  EXPECT_EQ(fields.is_error, expected.error.has_value()) << what;
  EXPECT_EQ(unescaped(fields.error_message), expected.error.value_or("")) << what;
}

TEST(EventReader, ReadsWhatServersSend) {
  for (const EventCase& c : event_cases()) {
    const Result<EventFields> fields = read_event(c.json);
    ASSERT_TRUE(fields.ok()) << c.name << ": " << fields.error().message;
    expect_same(*fields, c, c.name);
  }
}

TEST(EventReader, ReadsTheSameTheSecondTime) {
  EventReader reader;
  for (int round = 0; round < 3; ++round) {
    for (const EventCase& c : event_cases()) {
      // Twice each: the second is read by the template that the first left.
      for (int i = 0; i < 2; ++i) {
        const Result<EventFields> fields = reader.read(c.json);
        ASSERT_TRUE(fields.ok()) << c.name;
        expect_same(*fields, c, c.name + " again");
      }
    }
  }
}

TEST(EventReader, AStreamIsReadByTemplates) {
  EventReader reader;
  for (int i = 0; i < 1000; ++i) {
    const auto num_escapes = static_cast<size_t>(i % 7);
    std::string event = R"({"id":"c-)";
    event.append(std::to_string(i / 100)).append(R"(","choices":[{"index":0,"text":"w)");
    event.append(2 * num_escapes, '\\').append(R"(","finish_reason":null}],"usage":)");
    event.append(R"({"completion_tokens":)").append(std::to_string(i)).append("}}");
    const Result<EventFields> fields = reader.read(event);
    ASSERT_TRUE(fields.ok()) << event;
    EXPECT_EQ(fields->completion_tokens, i);
    EXPECT_EQ(unescaped(fields->text), std::string("w").append(num_escapes, '\\'));
  }
  EXPECT_EQ(reader.num_long_reads(), 1u);
}

TEST(EventReader, RefusesWhatIsNoJson) {
  const std::vector<std::string> cases = {
      "",
      " ",
      "x",
      "[]",
      "1",
      "\"a\"",
      "null",
      "{",
      "}",
      "{}x",
      "{} {}",
      "{\"a\"}",
      "{\"a\":}",
      "{\"a\":1,}",
      "{\"a\":1 \"b\":2}",
      "{a:1}",
      "{\"a\":01}",
      "{\"a\":1.}",
      "{\"a\":.5}",
      "{\"a\":1e}",
      "{\"a\":+1}",
      "{\"a\":-}",
      "{\"a\":tru}",
      "{\"a\":nul",
      "{\"a\":\"}",
      "{\"a\":\"\\x\"}",
      "{\"a\":\"\\u12g4\"}",
      "{\"a\":\"\\u12\"}",
      "{\"a\":[1,]}",
      "{\"a\":[1",
      "{\"a\":[1 2]}",
      "{\"a\":[,1]}",
      "{\"a\":{\"b\":1}",
      "{\"choices\":[{]}",
      "{\"a\":'b'}",
      "{\"a\":" + std::string(5000, '[') + std::string(5000, ']') + "}",
  };
  for (const std::string& json : cases) {
    EXPECT_FALSE(read_event(json).ok()) << json;
    EventReader reader;
    ASSERT_TRUE(reader.read(R"({"a":1})").ok());
    ASSERT_TRUE(reader.read(R"({"a":"b"})").ok());
    ASSERT_TRUE(reader.read(R"({"a":[1]})").ok());
    EXPECT_FALSE(reader.read(json).ok()) << json;
  }
}

TEST(EventReader, UnescapesToValidUtf8) {
  EXPECT_EQ(unescaped(R"(a\"\\\/\b\f\n\r\tz)"), "a\"\\/\b\f\n\r\tz");
  EXPECT_EQ(
      unescaped(R"(\u0041\u00e9\u4e2d\ud83d\ude00)"), "A\xc3\xa9\xe4\xb8\xad\xf0\x9f\x98\x80"
  );
  EXPECT_EQ(unescaped(R"(\ud83dx\ude00)"), "\xef\xbf\xbdx\xef\xbf\xbd") << "halves alone";
  EXPECT_EQ(
      unescaped(R"(\ud83d\u0041)"),
      "\xef\xbf\xbd"
      "A"
  );
  EXPECT_EQ(
      unescaped("a\xff"
                "b"),
      "a\xef\xbf\xbd"
      "b"
  );
}

// Random events, and what Boost.JSON says of them.
class RandomEvent {
 public:
  explicit RandomEvent(uint64_t seed) : rng_(seed) {}

  json::object make() {
    json::object event;
    const uint64_t kind = rng_.below(8);
    if (rng_.below(2) == 0) event["id"] = text();
    if (rng_.below(3) == 0) event[other_key()] = value(2);
    if (kind == 0) {
      event["text"] = text();
      event["output_ids"] = ids();
      event["meta_info"] = json::object{
          {"id", text()},
          {"finish_reason", finish_object()},
          {"prompt_tokens", count()},
          {"completion_tokens", count()},
          {"cached_tokens", count()}};
    } else {
      json::array choices;
      for (uint64_t i = rng_.below(3); i > 0; --i) choices.push_back(choice());
      event["choices"] = std::move(choices);
      if (rng_.below(2) == 0) event["usage"] = usage();
    }
    if (rng_.below(3) == 0) event[other_key()] = value(3);
    return event;
  }

  // With space between the tokens, as any server may write it.
  std::string write(const json::value& value) {
    const std::string plain = json::serialize(value);
    std::string spaced;
    bool is_in_text = false;
    for (size_t i = 0; i < plain.size(); ++i) {
      const char c = plain[i];
      if (c == '"' && !(is_in_text && is_escaped(plain, i))) is_in_text = !is_in_text;
      const bool is_mark = !is_in_text && std::string_view("{}[]:,").find(c) != std::string::npos;
      if (is_mark && rng_.below(4) == 0) spaced += ' ';
      spaced += c;
      if (is_mark && rng_.below(4) == 0) spaced += "\t\r\n"[rng_.below(3)];
    }
    return spaced;
  }

 private:
  static bool is_escaped(const std::string& text, size_t at) {
    size_t num = 0;
    while (at > num && text[at - 1 - num] == '\\') ++num;
    return num % 2 == 1;
  }
  std::string text() {
    constexpr std::string_view kPieces[] = {
        "",
        "a",
        "\"",
        "\\",
        "\n",
        "\x01",
        "\xc3\xa9",
        "\xf0\x9f\x98\x80",
        "{",
        "]",
        ":",
        "text",
        "choices",
        "usage",
        "\\\"",
        "\\u0041",
        "data: ",
        "null",
        "12"};
    std::string text;
    for (uint64_t i = rng_.below(5); i > 0; --i) text += kPieces[rng_.below(std::size(kPieces))];
    return text;
  }
  json::value text_value() { return json::value(text()); }
  std::string other_key() { return std::string("x").append(text()); }
  json::value count() { return static_cast<int64_t>(rng_.below(100'000)); }
  json::array ids() {
    json::array ids;
    for (uint64_t i = rng_.below(5); i > 0; --i) ids.push_back(count());
    return ids;
  }
  json::value finish_object() {
    if (rng_.below(2) == 0) return nullptr;
    return json::object{{"type", text()}, {"length", count()}};
  }
  json::value value(int depth) {
    switch (rng_.below(depth > 0 ? 8 : 6)) {
      case 0:
        return nullptr;
      case 1:
        return rng_.below(2) == 0;
      case 2:
        return text_value();
      case 3:
        return rng_.unit() * 1e9 - 5e8;
      case 4:
        return count();
      case 5:
        return ids();
      case 6:
        return json::array{value(depth - 1), value(depth - 1)};
      default:
        return json::object{{text(), value(depth - 1)}, {"text", value(depth - 1)}};
    }
  }
  json::object choice() {
    json::object choice;
    const char* const message = rng_.below(2) == 0 ? "delta" : "message";
    if (rng_.below(2) == 0) choice["index"] = count();
    if (rng_.below(2) == 0) {
      choice["text"] = text();
    } else {
      json::object delta;
      if (rng_.below(3) > 0) delta["content"] = rng_.below(4) == 0 ? json::value() : text_value();
      if (rng_.below(4) == 0) delta["reasoning_content"] = text();
      if (rng_.below(4) == 0) delta["tool_calls"] = json::array{value(1)};
      if (rng_.below(8) == 0) delta["tool_calls"] = json::array{};
      choice[message] = std::move(delta);
    }
    if (rng_.below(2) == 0) choice["logprobs"] = value(2);
    if (rng_.below(2) == 0)
      choice["finish_reason"] = rng_.below(2) == 0 ? json::value() : text_value();
    if (rng_.below(4) == 0) choice["token_ids"] = ids();
    return choice;
  }
  json::value usage() {
    if (rng_.below(4) == 0) return nullptr;
    json::object usage{{"prompt_tokens", count()}, {"completion_tokens", count()}};
    if (rng_.below(2) == 0) {
      usage["prompt_tokens_details"] = json::object{{"cached_tokens", count()}};
    }
    return usage;
  }

  Rng rng_;
};

// An object's member that is of the kind; null where it is not.
const json::value* member(const json::value* value, std::string_view key) {
  if (value == nullptr || !value->is_object()) return nullptr;
  const json::value* found = value->get_object().if_contains(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}
std::string text_of(const json::value* value) {
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}
std::optional<int64_t> count_of(const json::value* value) {
  if (value == nullptr || !value->is_int64()) return std::nullopt;
  const int64_t count = value->get_int64();
  return count <= kTokenCountMax ? std::optional(count) : std::nullopt;
}

// What the event says, read from Boost.JSON's value: another implementation of the same rules.
EventCase expected_of(const json::value& event) {
  EventCase expected;
  const json::value* choices = member(&event, "choices");
  const json::value* usage = member(&event, "usage");
  const json::value* meta = member(&event, "meta_info");
  expected.has_choices = choices != nullptr && !choices->as_array().empty();
  expected.is_native = meta != nullptr;
  if (meta != nullptr) {
    usage = meta;
    expected.text = text_of(member(&event, "text"));
    expected.finish_reason = text_of(member(member(meta, "finish_reason"), "type"));
    expected.cached_tokens = count_of(member(meta, "cached_tokens"));
    expected.num_token_ids = member(&event, "output_ids")->as_array().size();
  }
  expected.completion_tokens = count_of(member(usage, "completion_tokens"));
  expected.prompt_tokens = count_of(member(usage, "prompt_tokens"));
  if (const json::value* details = member(usage, "prompt_tokens_details")) {
    expected.cached_tokens = count_of(member(details, "cached_tokens"));
  }
  if (choices == nullptr) return expected;
  const auto last_not_empty = [](std::string& to, const std::string& from) {
    if (!from.empty()) to = from;
  };
  for (const json::value& choice : choices->as_array()) {
    last_not_empty(expected.text, text_of(member(&choice, "text")));
    for (const char* key : {"delta", "message"}) {
      const json::value* delta = member(&choice, key);
      last_not_empty(expected.text, text_of(member(delta, "content")));
      last_not_empty(expected.reasoning, text_of(member(delta, "reasoning_content")));
      const json::value* calls = member(delta, "tool_calls");
      if (calls != nullptr && !calls->as_array().empty()) expected.has_other_output = true;
    }
    const json::value* reason = member(&choice, "finish_reason");
    if (reason != nullptr) expected.finish_reason = text_of(reason);
    if (const json::value* ids = member(&choice, "token_ids")) {
      const auto num = static_cast<int64_t>(ids->as_array().size());
      expected.num_token_ids = expected.num_token_ids.value_or(0) + num;
    }
  }
  return expected;
}

TEST(EventReader, AgreesWithBoostJsonOnRandomEvents) {
  EventReader reader;
  for (uint64_t seed = 0; seed < 20'000; ++seed) {
    RandomEvent random(seed);
    const json::object event = random.make();
    const std::string text = random.write(event);
    const EventCase expected = expected_of(json::parse(text));
    const Result<EventFields> alone = read_event(text);
    ASSERT_TRUE(alone.ok()) << "seed " << seed << ": " << text;
    expect_same(*alone, expected, "seed " + std::to_string(seed) + ": " + text);
    const Result<EventFields> among = reader.read(text);
    ASSERT_TRUE(among.ok()) << "seed " << seed;
    expect_same(*among, expected, "by a template, seed " + std::to_string(seed) + ": " + text);
    if (HasFailure()) return;
  }
  EXPECT_LT(reader.num_long_reads(), 20'000u) << "templates were tried too";
}

// Cut or changed anywhere, no event is read past its end, and a template never accepts what the
// long way refuses.
TEST(EventReader, TemplatesAcceptNothingThatTheLongWayRefuses) {
  Rng rng(5);
  EventReader reader;
  for (const EventCase& c : event_cases()) {
    for (int round = 0; round < 300; ++round) {
      ASSERT_TRUE(reader.read(c.json).ok());
      std::string changed = c.json;
      const size_t at = rng.below(changed.size());
      if (round % 3 == 0) {
        changed.resize(at);
      } else if (round % 3 == 1) {
        changed[at] = "\"\\{}[],:0x \n"[rng.below(12)];
      } else {
        changed.erase(at, 1);
      }
      const Result<EventFields> alone = read_event(changed);
      const Result<EventFields> among = reader.read(changed);
      ASSERT_EQ(alone.ok(), among.ok()) << changed;
      if (!alone) continue;
      ASSERT_EQ(alone->text, among->text) << changed;
      ASSERT_EQ(alone->completion_tokens, among->completion_tokens) << changed;
      ASSERT_EQ(alone->num_token_ids, among->num_token_ids) << changed;
      ASSERT_EQ(alone->finish_reason, among->finish_reason) << changed;
      ASSERT_EQ(alone->is_error, among->is_error) << changed;
    }
  }
}

}  // namespace
}  // namespace millrace::bench
