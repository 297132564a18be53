// What a line of a log looks like, and what no text can make of it.
#include "base/log_line.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/json.h"

namespace millrace {
namespace {

constexpr auto kTime = std::chrono::sys_days{std::chrono::March / 1 / 2026} +
                       std::chrono::hours(9) + std::chrono::milliseconds(5'250);

std::string line_of(
    LogFormat format, std::string_view message, const std::vector<LogField>& fields = {}
) {
  return format_log_line(format, {kTime, LogLevel::kInfo, message}, fields);
}

json::object parsed(std::string_view line) {
  const Result<json::value> value = parse_json(line);
  EXPECT_TRUE(value.ok()) << line;
  return value ? value->as_object() : json::object();
}

TEST(LogLine, IsTextWithFieldsAfterTheMessage) {
  const std::string id = "cmpl-1";
  EXPECT_EQ(
      line_of(
          LogFormat::kText,
          "request finished",
          {{"request_id", id},
           {"status", 200},
           {"ttft_ms", 12.5},
           {"is_stream", true},
           {"bytes", size_t{7}},
           {"user", "a b"},
           {"empty", ""}}
      ),
      "2026-03-01T09:00:05.250Z INFO request finished request_id=cmpl-1 status=200 ttft_ms=12.5 "
      "is_stream=true bytes=7 user=\"a b\" empty=\"\"\n"
  );
}

TEST(LogLine, IsOneJsonObject) {
  EXPECT_EQ(
      line_of(
          LogFormat::kJson,
          "request finished",
          {{"request_id", "cmpl-1"}, {"status", -200}, {"ttft_ms", 12.5}, {"is_stream", false}}
      ),
      R"({"time":"2026-03-01T09:00:05.250Z","level":"info","message":"request finished",)"
      R"("request_id":"cmpl-1","status":-200,"ttft_ms":12.5,"is_stream":false})"
      "\n"
  );
}

TEST(LogLine, SaysTheLevel) {
  for (const auto& [level, word] :
       {std::pair(LogLevel::kDebug, "debug"),
        std::pair(LogLevel::kInfo, "info"),
        std::pair(LogLevel::kWarning, "warning"),
        std::pair(LogLevel::kError, "error")}) {
    const std::string line = format_log_line(LogFormat::kJson, {kTime, level, "x"}, {});
    EXPECT_EQ(parsed(line).at("level").as_string(), word);
  }
}

TEST(LogLine, KeepsTheEndsOfEveryKindOfNumber) {
  const std::vector<LogField> fields = {
      {"a", std::numeric_limits<int64_t>::min()},
      {"b", std::numeric_limits<uint64_t>::max()},
      {"c", 1e300},
      {"d", std::nan("")},
      {"e", -std::numeric_limits<double>::infinity()},
  };
  const json::object object = parsed(line_of(LogFormat::kJson, "x", fields));
  EXPECT_EQ(object.at("a").as_int64(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(object.at("b").as_uint64(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(object.at("c").as_double(), 1e300);
  EXPECT_TRUE(object.at("d").is_null() && object.at("e").is_null());
  EXPECT_NE(line_of(LogFormat::kText, "x", fields).find(" d=nan e=-inf\n"), std::string::npos);
}

// Every byte alone and between letters, and what is longer than a byte and as bad.
std::vector<std::string> hostile_texts() {
  std::vector<std::string> texts = {
      "a\r\n2026-03-01T09:00:05.250Z INFO forged",
      "\x1b[31mred\x1b[0m",
      std::string("nul\0nul", 7),
      "x status=200",
      "\" status=200 y=\"",
      "\\\" status=200",
      "\xc2\x9b"
      "31m",                  // U+009B, a terminal's CSI
      "\xe2\x80\xa8line",     // U+2028
      "\xe2\x80\xaetxt.exe",  // U+202E
      "\xef\xbb\xbf bom",
      "\xed\xa0\x80 surrogate",
      "\xc0\x8a overlong line feed",
      "\xf4\x90\x80\x80 beyond",
      "\xe2\x82",  // cut
      "\xff\xfe",
      R"(","level":"error","x":")",
  };
  for (int byte = 0; byte < 256; ++byte) {
    texts.push_back(std::string(1, static_cast<char>(byte)));
    texts.push_back(fmt::format("a{}b", static_cast<char>(byte)));
  }
  return texts;
}

bool is_harmless(std::string_view line) {
  const auto is_control = [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7F; };
  const std::string_view body = line.substr(0, line.size() - 1);
  return line.back() == '\n' && std::none_of(body.begin(), body.end(), is_control) &&
         body.find("\xc2\x9b") == std::string_view::npos &&
         body.find("\xe2\x80\xa8") == std::string_view::npos &&
         body.find("\xe2\x80\xae") == std::string_view::npos;
}

TEST(LogLine, NoTextEndsALineOrForgesAField) {
  for (const std::string& text : hostile_texts()) {
    const json::object object =
        parsed(line_of(LogFormat::kJson, text, {{"user", text}, {"status", 400}}));
    EXPECT_EQ(object.size(), 5U) << text;
    EXPECT_EQ(object.at("status").as_int64(), 400);
    EXPECT_EQ(object.at("level").as_string(), "info");
    for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
      const std::string line = line_of(format, text, {{"user", text}, {"status", 400}});
      EXPECT_TRUE(is_harmless(line)) << line;
    }
  }
}

// Splits a text line as a reader would: words, of which some have a quoted end.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words(1);
  bool is_quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') is_quoted = !is_quoted;
    if (is_quoted && line[i] == '\\') {
      words.back() += line[i++];
    } else if (!is_quoted && line[i] == ' ') {
      words.emplace_back();
      continue;
    }
    words.back() += line[i];
  }
  return words;
}

TEST(LogLine, TextCanBeTakenApartAgain) {
  for (const std::string& text : hostile_texts()) {
    const std::vector<std::string> words =
        words_of(line_of(LogFormat::kText, "refused", {{"user", text}, {"status", 400}}));
    ASSERT_EQ(words.size(), 5U) << line_of(LogFormat::kText, "refused", {{"user", text}});
    EXPECT_EQ(words[2], "refused");
    EXPECT_TRUE(words[3].starts_with("user="));
    EXPECT_EQ(words[4], "status=400\n");
  }
}

TEST(LogLine, KeepsTextOfAllLanguages) {
  const std::string text = "Grüße, 世界 🌍";
  EXPECT_EQ(parsed(line_of(LogFormat::kJson, text)).at("message").as_string(), text);
  EXPECT_NE(line_of(LogFormat::kText, text).find("\"" + text + "\""), std::string::npos);
}

TEST(LogLine, ShowsBytesThatAreNoUtf8) {
  EXPECT_NE(
      line_of(
          LogFormat::kText,
          "a\xff"
          "b"
      )
          .find(R"("a\xffb")"),
      std::string::npos
  );
  EXPECT_EQ(
      parsed(line_of(
                 LogFormat::kJson,
                 "a\xff"
                 "b"
             ))
          .at("message")
          .as_string(),
      "a\uFFFDb"
  );
}

TEST(LogLine, CutsATextBetweenCharacters) {
  for (const std::string piece : {"a", "ü", "世", "🌍", "\n", "\x01", "\xff"}) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += piece;
    const json::object object = parsed(line_of(LogFormat::kJson, "x", {{"user", text}}));
    const std::string_view kept = object.at("user").as_string();
    EXPECT_TRUE(kept.ends_with("...") && kept.size() <= kLogTextBytesMax + 3) << kept.size();
    EXPECT_LE(line_of(LogFormat::kText, "x", {{"user", text}}).size(), kLogTextBytesMax + 64);
  }
  const std::string fits(kLogTextBytesMax, 'a');
  EXPECT_EQ(parsed(line_of(LogFormat::kJson, fits)).at("message").as_string(), fits);
}

TEST(LogLine, LeavesOutFieldsThatAPipeWouldNotTakeInOnePiece) {
  const std::string text(10'000, '"');
  const std::vector<LogField> fields(20, {"key", text});
  const std::string line = line_of(LogFormat::kText, text, fields);
  EXPECT_LE(line.size(), kLogLineBytesMax);
  EXPECT_TRUE(line.ends_with(" num_fields_left_out=14\n")) << line;

  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) keys.push_back(fmt::format("key{}", i));
  std::vector<LogField> named;
  for (const std::string& key : keys) named.push_back({key, text});
  const std::string json_line = line_of(LogFormat::kJson, text, named);
  EXPECT_LE(json_line.size(), kLogLineBytesMax);
  EXPECT_EQ(parsed(json_line).at("num_fields_left_out").as_int64(), 14);
}

}  // namespace
}  // namespace millrace
