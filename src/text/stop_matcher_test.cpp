#include "text/stop_matcher.h"

#include <gtest/gtest.h>

#include "base/rng.h"

namespace millrace {
namespace {

struct Outcome {
  std::string text;
  std::optional<size_t> stop;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome feed(
    const std::vector<std::string>& stops, const std::vector<std::string>& pieces, bool include_stop
) {
  size_t longest = 1;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  StopStringMatcher matcher(std::make_shared<const StopStrings>(stops), include_stop);
  Outcome outcome;
  size_t num_fed = 0;
  for (const std::string& piece : pieces) {
    outcome.text += matcher.push(piece);
    num_fed += piece.size();
    if (!matcher.matched()) {
      EXPECT_LE(num_fed - outcome.text.size(), longest - 1);
    }
  }
  outcome.text += matcher.finish();
  outcome.stop = matcher.matched();
  return outcome;
}

// The definition: the first end of any stop string, then the longest one that ends there.
Outcome search(const std::vector<std::string>& stops, const std::string& text, bool include_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    std::optional<size_t> best;
    for (size_t i = 0; i < stops.size(); ++i) {
      const bool ends_here = !stops[i].empty() && stops[i].size() <= end &&
                             text.compare(end - stops[i].size(), stops[i].size(), stops[i]) == 0;
      if (ends_here && (!best || stops[i].size() > stops[*best].size())) best = i;
    }
    if (best) return {text.substr(0, include_stop ? end : end - stops[*best].size()), best};
  }
  return {text, std::nullopt};
}

TEST(StopStringMatcher, CutsBeforeOrBehindTheStopString) {
  EXPECT_EQ(feed({"END"}, {"one E", "N", "D two"}, false), (Outcome{"one ", 0}));
  EXPECT_EQ(feed({"END"}, {"one E", "N", "D two"}, true), (Outcome{"one END", 0}));
  EXPECT_EQ(feed({"END"}, {"one EN", "x"}, false), (Outcome{"one ENx", std::nullopt}));
  EXPECT_EQ(feed({"END"}, {"one EN"}, false), (Outcome{"one EN", std::nullopt}));
}

TEST(StopStringMatcher, NothingEndsInTextThatIsPassed) {
  const std::vector<std::string> stops = {"aa", "abc"};
  StopStringMatcher matcher(std::make_shared<const StopStrings>(stops), false);
  EXPECT_EQ(matcher.pass("xaa"), "xa");  // as much as before is held of one that has ended
  EXPECT_EQ(matcher.push("b"), "");
  EXPECT_EQ(matcher.push("c!"), "");
  EXPECT_EQ(matcher.matched_string(), "abc");
}

TEST(StopStringMatcher, ReleasesAtOnceWhatCannotBecomeAStop) {
  const std::vector<std::string> stops = {"\n\n", "###"};
  StopStringMatcher matcher(std::make_shared<const StopStrings>(stops), false);
  EXPECT_EQ(matcher.push("hello"), "hello");
  EXPECT_EQ(matcher.push(" x#"), " x");
  EXPECT_EQ(matcher.push("#a"), "##a");
  EXPECT_EQ(matcher.push("\n"), "");
  EXPECT_EQ(matcher.push("\n"), "");
  EXPECT_EQ(matcher.matched(), 0U);
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.finish(), "");
}

TEST(StopStringMatcher, PrefersTheEarliestEndThenTheLongest) {
  EXPECT_EQ(feed({"bcd", "c"}, {"abcd"}, false), (Outcome{"ab", 1}));
  EXPECT_EQ(feed({"c", "abc"}, {"xabc"}, false), (Outcome{"x", 1}));
  EXPECT_EQ(feed({"abc", "abc"}, {"abc"}, false), (Outcome{"", 0}));
}

TEST(StopStringMatcher, PassesEverythingWithoutStops) {
  EXPECT_EQ(feed({}, {"a", "b"}, false), (Outcome{"ab", std::nullopt}));
  EXPECT_EQ(feed({""}, {"a", "b"}, false), (Outcome{"ab", std::nullopt}));
}

TEST(StopStringMatcher, AgreesWithTheDefinitionHoweverTheTextIsCut) {
  Rng rng(5);
  const auto random_text = [&](uint64_t length_max) {
    std::string text;
    const uint64_t length = rng.below(length_max + 1);
    for (uint64_t i = 0; i < length; ++i) text.push_back("abc"[rng.below(3)]);
    return text;
  };
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::string> stops(rng.below(4));
    for (std::string& stop : stops) stop = random_text(5);
    std::vector<std::string> pieces(rng.below(8));
    std::string text;
    for (std::string& piece : pieces) {
      piece = random_text(6);
      text += piece;
    }
    const bool include_stop = rng.below(2) == 0;
    ASSERT_EQ(feed(stops, pieces, include_stop), search(stops, text, include_stop)) << text;
  }
}

TEST(StopStringMatcher, IsLinearInNestedPrefixes) {
  std::vector<std::string> stops;
  for (size_t i = 0; i < 32; ++i) stops.push_back(std::string(100 * (i + 1), 'a') + "b");
  StopStringMatcher matcher(std::make_shared<const StopStrings>(stops), false);
  const std::string piece(1000, 'a');
  size_t num_released = 0;
  for (int i = 0; i < 1000; ++i) num_released += matcher.push(piece).size();
  EXPECT_EQ(num_released, size_t{1'000'000} - 3200);
}

}  // namespace
}  // namespace millrace
