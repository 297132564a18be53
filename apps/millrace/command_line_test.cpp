#include "command_line.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/test_folder.h"

namespace millrace {
namespace {

struct Options {
  int max_tokens = 16;
  bool stream = false;
  std::string model = "default";
  std::vector<std::string> stop;
  std::optional<int64_t> max_model_len;
  size_t seed = 0;
  std::vector<std::string> rates, headers;
};

// What one parse gave: the exit code if it ended there, the options, and what it said on stderr.
struct Outcome {
  std::optional<int> exit_code;
  Options options;
  std::string said;
};

Outcome parse(std::vector<std::string> arguments) {
  Outcome outcome;
  CommandLine line("test", "a test");
  line.add_positional("MODEL", outcome.options.model, "model");
  line.add("--max-tokens", outcome.options.max_tokens, "tokens");
  line.add("--stop", outcome.options.stop, "stop");
  line.add_flag("--stream", outcome.options.stream, "stream");
  line.add_size("--max-model-len", outcome.options.max_model_len, "length");
  line.add("--seed", outcome.options.seed, "seed");
  const auto into = [](std::vector<std::string>& texts) {
    return [&texts](const std::string& text) -> Result<void> {
      texts.push_back(text);
      return {};
    };
  };
  line.add_value("--rate", into(outcome.options.rates), "rates");
  line.add_callback("--header", into(outcome.options.headers), "headers");
  testing::internal::CaptureStderr();
  outcome.exit_code = line.parse(std::move(arguments));
  outcome.said = testing::internal::GetCapturedStderr();
  return outcome;
}

TEST(CommandLine, TakesFlagsWithDashesAndUnderscores) {
  const Outcome outcome = parse({"m.gguf", "--max_tokens=5", "--stream", "--max-model-len", "32k"});
  EXPECT_FALSE(outcome.exit_code);
  EXPECT_EQ(outcome.options.model, "m.gguf");
  EXPECT_EQ(outcome.options.max_tokens, 5);
  EXPECT_TRUE(outcome.options.stream);
  EXPECT_EQ(outcome.options.max_model_len, 32000);
}

TEST(CommandLine, NamesTheNearestFlag) {
  const Outcome outcome = parse({"--max-token", "5"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(
      outcome.said, "millrace test: there is no flag '--max-token'; did you mean '--max-tokens'?\n"
  );
}

TEST(CommandLine, SaysWhenNoFlagIsNear) {
  const Outcome outcome = parse({"--xyzzy"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.said.find("--help lists them"), std::string::npos) << outcome.said;
}

TEST(CommandLine, RefusesAWrongValueInOneLine) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--max-tokens", "many"},
        {"--max-tokens"},
        {"--max-model-len", "long"},
        {"--seed", "-1"},
        {"one", "two"}}) {
    const Outcome outcome = parse(arguments);
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_EQ(std::ranges::count(outcome.said, '\n'), 1) << outcome.said;
  }
}

// Of lists the last one once won without a word.
TEST(CommandLine, RefusesAValueThatIsGivenTwice) {
  for (const std::string flag : {"--max-tokens", "--max-model-len", "--rate"}) {
    const Outcome outcome = parse({flag, "1", flag, "2"});
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_NE(outcome.said.find(flag), std::string::npos) << outcome.said;
  }
  EXPECT_EQ(parse({"--rate=5"}).options.rates, std::vector<std::string>({"5"}));
  EXPECT_EQ(
      parse({"--header", "a", "--header", "b"}).options.headers,
      std::vector<std::string>({"a", "b"})
  );
}

TEST(CommandLine, FlagWinsOverFileAndFileOverEnvironment) {
  const TestFile file("max_tokens: 7\nstop: [a, b]\nstream: true\n");
  ::setenv("MILLRACE_MAX_TOKENS", "9", 1);
  EXPECT_EQ(parse({}).options.max_tokens, 9);
  EXPECT_EQ(parse({"--config", file.path()}).options.max_tokens, 7);
  EXPECT_EQ(parse({"--config", file.path(), "--max-tokens", "5"}).options.max_tokens, 5);
  ::unsetenv("MILLRACE_MAX_TOKENS");
  const Outcome outcome = parse({"--config", file.path()});
  EXPECT_EQ(outcome.options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(outcome.options.stream);
}

TEST(CommandLine, RefusesABrokenOrUnknownConfiguration) {
  EXPECT_EQ(parse({"--config", TestFile("max_tokns: 7\n").path()}).exit_code, 2);
  EXPECT_EQ(parse({"--config", TestFile("a: [\n").path()}).exit_code, 2);
  EXPECT_EQ(parse({"--config", TestFile("- 1\n").path()}).exit_code, 2);
  EXPECT_EQ(parse({"--config", TestFile("max_tokens: {a: 1}\n").path()}).exit_code, 2);
  EXPECT_EQ(parse({"--config", "/no/such/file.yaml"}).exit_code, 2);
}

// What is no JSON value is text, and a text in quotes stays one.
TEST(CommandLine, TakesAMapOfAFileAsAJsonObject) {
  const Outcome outcome =
      parse({"--config", TestFile("stop: {method: ngram, k: 5, id: \"6\", on: true}\n").path()});
  EXPECT_EQ(
      outcome.options.stop,
      (std::vector<std::string>{R"({"method": "ngram", "k": 5, "id": "6", "on": true})"})
  );
}

// Flags that are tied to each other: `arguments` after them give the exit code, if any.
std::optional<int> parse_tied(std::vector<std::string> arguments) {
  std::string file, url, key, model;
  CommandLine line("test", "a test");
  line.add_positional("FILE", file, "file").required();
  line.add("--model,-m", model, "model");
  const std::vector<Flag> local_flags = line.flags();
  Flag to = line.add("--url", url, "url").set_environment("TEST_URL");
  for (const Flag flag : local_flags) {
    EXPECT_TRUE(flag.is_named("--model") && flag.is_named("-m") && !flag.is_named("--url"));
    to.excludes(flag);
  }
  line.add("--key", key, "key").needs(to);
  EXPECT_EQ(local_flags.size(), 1U);  // neither --help nor --config nor FILE
  testing::internal::CaptureStderr();
  const std::optional<int> exit_code = line.parse(std::move(arguments));
  EXPECT_EQ(testing::internal::GetCapturedStderr().empty(), !exit_code);
  return exit_code;
}

TEST(CommandLine, KeepsWhatIsSaidOfFlags) {
  EXPECT_EQ(parse_tied({"f"}), std::nullopt);
  EXPECT_EQ(parse_tied({}), 2);
  EXPECT_EQ(parse_tied({"f", "--url", "u", "--key", "k"}), std::nullopt);
  EXPECT_EQ(parse_tied({"f", "--key", "k"}), 2);
  EXPECT_EQ(parse_tied({"f", "--url", "u", "-m", "x"}), 2);
  ::setenv("TEST_URL", "u", 1);
  EXPECT_EQ(parse_tied({"f", "--key", "k"}), std::nullopt);
  ::unsetenv("TEST_URL");
}

TEST(CommandLine, ReadsSizesAsPeopleWriteThem) {
  EXPECT_EQ(*parse_size("4096"), 4096);
  EXPECT_EQ(*parse_size("32k"), 32000);
  EXPECT_EQ(*parse_size("32K"), 32768);
  EXPECT_EQ(*parse_size("1.5G"), int64_t{3} << 29);
  for (const char* text : {"", "k", "12q", "12kk", "-1", "nan", "1e99", "inf"}) {
    EXPECT_FALSE(parse_size(text)) << text;
  }
}

}  // namespace
}  // namespace millrace
