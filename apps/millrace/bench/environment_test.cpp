// What is said of the machine and of the command.
#include "bench/environment.h"

#include <gtest/gtest.h>

#include <map>

namespace millrace::bench {
namespace {

TEST(Environment, ShortensAProcessorsName) {
  EXPECT_EQ(short_cpu_name("AMD EPYC 9K84 96-Core Processor"), "9K84");
  EXPECT_EQ(short_cpu_name("Intel(R) Xeon(R) Platinum 8480+ @ 2.0GHz"), "8480+");
  EXPECT_EQ(short_cpu_name("AMD Ryzen 9 7950X"), "9");
  EXPECT_EQ(short_cpu_name("AMD EPYC"), "AMD EPYC") << "nothing to shorten";
  EXPECT_EQ(short_cpu_name(""), "");
}

TEST(Environment, QuotesWhatAShellWouldTakeApart) {
  EXPECT_EQ(
      command_text("millrace bench serve", {"--port", "8000", "--base-url=http://a:1/v1"}),
      "millrace bench serve --port 8000 --base-url=http://a:1/v1"
  );
  EXPECT_EQ(command_text("x", {"ttft:200 tpot:50"}), "x 'ttft:200 tpot:50'");
  EXPECT_EQ(
      command_text("x", {"", "it's", "$HOME", "{\"a\":1}"}), "x '' 'it'\\''s' '$HOME' '{\"a\":1}'"
  );
}

// They once stood in records and pages that were passed on.
TEST(Environment, HidesKeysHeadersAndUsers) {
  struct Case {
    std::vector<std::string> arguments;
    const char* shown;
  };
  for (const Case& c :
       {Case{{"--api-key", "sk-1=", "--port", "1"}, "x --api-key '***' --port 1"},
        Case{{"--api_key=sk-1="}, "x '--api_key=***'"},
        Case{{"--api-key", "--header"}, "x --api-key '***'"},
        Case{{"--header", "X-Tok=a=b"}, "x --header 'X-Tok=***'"},
        Case{{"--header=X-Tok=a=b"}, "x '--header=X-Tok=***'"},
        Case{{"--header", "no sign"}, "x --header '***'"},
        Case{{"--base-url", "http://me:pw@a:1/v1"}, "x --base-url 'http://***@a:1/v1'"},
        Case{{"--framework=a=https://me:p@w@a"}, "x '--framework=a=https://***@a'"},
        Case{{"--base-url", "http://a:1/b@c"}, "x --base-url http://a:1/b@c"},
        Case{{"--api-key"}, "x --api-key"}}) {
    EXPECT_EQ(command_text("x", c.arguments), c.shown);
  }
}

TEST(Environment, SaysWhatAReaderWantsToKnow) {
  const auto facts = environment("the command");
  const std::map<std::string, std::string> by_name(facts.begin(), facts.end());
  EXPECT_EQ(by_name.size(), facts.size()) << "each once";
  EXPECT_EQ(by_name.at("command"), "the command");
  EXPECT_EQ(by_name.at("millrace"), MILLRACE_VERSION);
  EXPECT_GE(std::stoi(by_name.at("cores")), 1);
  EXPECT_TRUE(by_name.at("memory").ends_with(" GiB"));
  EXPECT_TRUE(by_name.at("kernel").starts_with("Linux "));
}

}  // namespace
}  // namespace millrace::bench
