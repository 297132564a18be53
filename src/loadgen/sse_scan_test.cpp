#include "loadgen/sse_scan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/rng.h"
#include "http/sse_reader.h"

namespace millrace::bench {
namespace {

std::vector<std::string> scan(std::string_view bytes, size_t step, bool finishes = false) {
  SseScan scan;
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size(); at += step) {
    // A buffer of its own, so that a view of an earlier one would be found.
    const std::string piece(bytes.substr(at, step));
    std::string_view rest = piece;
    while (const auto data = scan.next(rest)) events.emplace_back(*data);
    EXPECT_TRUE(rest.empty());
  }
  if (finishes) {
    while (const auto data = scan.finish()) events.emplace_back(*data);
  }
  return events;
}

struct Case {
  std::string name;
  std::string bytes;
  std::vector<std::string> events;
};

TEST(SseScan, FindsTheSameEventsHoweverTheBytesAreSplit) {
  const std::vector<Case> cases = {
      {"two", "data: a\n\ndata: b\n\n", {"a", "b"}},
      {"no space", "data:{}\n\ndata:  x\n\n", {"{}", " x"}},
      {"CR LF", "data: a\r\n\r\ndata: b\r\n\r\n", {"a", "b"}},
      {"mixed ends", "data: a\r\n\ndata: b\n\r\n", {"a", "b"}},
      {"comments", ": ping\n\n:\n\ndata: a\n: in between\n\n: ping\r\n\r\n", {"a"}},
      {"fields", "event: message\nid: 7\nretry: 5\ndata: a\n\n", {"a"}},
      {"lines are joined", "data: {\ndata: }\ndata\n\n", {"{\n}\n"}},
      {"empty data", "data:\n\ndata\n\n", {"", ""}},
      {"similar names", "dat: a\n\ndatax: b\n\nxdata: c\n\ndata: d\n\n", {"d"}},
      {"blank lines", "\n\n\ndata: a\n\n\n\ndata: b\n\n\n", {"a", "b"}},
      {"unfinished", "data: a\n\ndata: b\n", {"a"}},
      {"a carriage return within", "data: a\rb\n\n", {"a\rb"}},
  };
  for (const Case& c : cases) {
    for (size_t step = 1; step <= c.bytes.size(); ++step) {
      EXPECT_EQ(scan(c.bytes, step), c.events) << c.name << " in pieces of " << step;
    }
  }
}

TEST(SseScan, GivesALastEventThatNoEmptyLineEnds) {
  EXPECT_EQ(scan("data: a\n\ndata: b\n", 3, true), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(scan("data: a\n\ndata: b", 3, true), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(scan("data: a\r\ndata: b\r", 4, true), (std::vector<std::string>{"a\nb"}));
  EXPECT_EQ(scan("data: a\n\n: b", 3, true), (std::vector<std::string>{"a"}));
}

TEST(SseScan, TellsAnErrorByTheEventsName) {
  const std::string bytes =
      "event: error\n\ndata: a\n\nevent: error\r\ndata: b\r\n\r\ndata: c\n\n"
      "data: d\nevent:error\n\nevent: message\ndata: e\n\nevent: error\ndata: f";
  for (size_t step = 1; step <= bytes.size(); ++step) {
    SseScan scan;
    std::string errors;
    for (size_t at = 0; at < bytes.size(); at += step) {
      const std::string piece = bytes.substr(at, step);
      std::string_view rest = piece;
      while (const auto data = scan.next(rest)) {
        if (scan.is_error()) errors += *data;
      }
    }
    while (const auto data = scan.finish()) {
      if (scan.is_error()) errors += *data;
    }
    EXPECT_EQ(errors, "bdf") << step;
  }
}

TEST(SseScan, RefusesAnEventWithoutAnEnd) {
  for (const std::string_view piece : {"data: 0123456789", "data: 0123456789\n"}) {
    SseScan scan(64);
    for (int i = 0; i < 10 && !scan.is_overlong(); ++i) {
      std::string_view rest = piece;
      EXPECT_EQ(scan.next(rest), std::nullopt);
    }
    EXPECT_TRUE(scan.is_overlong());
    std::string_view rest = "\n\ndata: x\n\n";
    EXPECT_EQ(scan.next(rest), std::nullopt) << "nothing more is taken";
    scan.reset();
    rest = "data: x\n\n";
    EXPECT_EQ(scan.next(rest), "x");
  }
}

// The server's own reader of events is the other opinion.
TEST(SseScan, AgreesWithTheHttpReader) {
  Rng rng(11);
  constexpr std::string_view kAlphabet[] = {
      "data", ":", " ", "\n", "\r\n", "x", "{}", "id", "\n\n"};
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 30; ++i) bytes += kAlphabet[rng.below(std::size(kAlphabet))];
    http::SseReader reader;
    std::vector<http::SseEvent> expected;
    ASSERT_TRUE(reader.feed(bytes, expected));
    std::vector<std::string> data;
    for (const http::SseEvent& event : expected) data.push_back(event.data);
    ASSERT_EQ(scan(bytes, 1 + rng.below(40)), data) << "round " << round << ": " << bytes;
  }
}

}  // namespace
}  // namespace millrace::bench
