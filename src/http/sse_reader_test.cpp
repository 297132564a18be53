#include "http/sse_reader.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::http {
namespace {

std::vector<SseEvent> read(const std::vector<std::string_view>& pieces) {
  SseReader reader;
  std::vector<SseEvent> events;
  for (const std::string_view piece : pieces) EXPECT_TRUE(reader.feed(piece, events).ok());
  return events;
}

struct Case {
  std::string bytes;
  std::vector<SseEvent> events;
};

// The examples of WHATWG HTML, 9.2.6, and the corners of its grammar.
const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      {"data: a\n\n", {{.data = "a"}}},
      {"data: a\r\n\r\ndata: b\r\rdata: c\n\n", {{.data = "a"}, {.data = "b"}, {.data = "c"}}},
      {"data: YHOO\ndata: +2\ndata: 10\n\n", {{.data = "YHOO\n+2\n10"}}},
      {": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third "
       "event\n\n",
       {{.data = "first event", .id = "1"}, {.data = "second event"}, {.data = " third event"}}},
      {"data\n\ndata\ndata\n\ndata:", {{.data = ""}, {.data = "\n"}}},
      {"data:test\n\ndata: test\n\n", {{.data = "test"}, {.data = "test"}}},
      {"event: add\ndata: 1\n\ndata: 2\n\n", {{.type = "add", .data = "1"}, {.data = "2"}}},
      {"event: lost\n\ndata: 1\n\n", {{.data = "1"}}},
      {"id: 7\n\ndata: 1\n\ndata: 2\n\n", {{.data = "1", .id = "7"}, {.data = "2", .id = "7"}}},
      {std::string("id: a\0b\ndata: 1\n\n", 17), {{.data = "1"}}},
      {"\xef\xbb\xbf"
       "data: bom\n\n\xef\xbb\xbf"
       "data: not\n\n",
       {{.data = "bom"}}},
      {"retry: 10\nunknown: x\nDATA: x\n data: x\n:\n\n", {}},
      {"data: unfinished\n", {}},
      {"data: [DONE]\r\n\r\n", {{.data = "[DONE]"}}},
      {"\n\n\r\n\r", {}},
  };
  return kCases;
}

TEST(SseReader, ReadsWhatTheStandardSays) {
  for (const Case& test : cases()) EXPECT_EQ(read({test.bytes}), test.events) << test.bytes;
}

TEST(SseReader, GivesTheSameForEverySplit) {
  for (const Case& test : cases()) {
    const std::string_view bytes = test.bytes;
    for (size_t i = 0; i <= bytes.size(); ++i) {
      for (size_t j = i; j <= bytes.size(); ++j) {
        EXPECT_EQ(read({bytes.substr(0, i), bytes.substr(i, j - i), bytes.substr(j)}), test.events)
            << bytes << " split at " << i << " and " << j;
      }
    }
  }
}

TEST(SseReader, HoldsNoMoreThanItsLimit) {
  for (const std::string piece : {"data: aaaaaa\n", ": aaaaaa", "aaaaaaa"}) {
    SseReader reader(1000);
    std::vector<SseEvent> events;
    size_t num_fed = 0;
    while (num_fed < 100'000 && reader.feed(piece, events).ok()) num_fed += piece.size();
    EXPECT_LT(num_fed, 2500u) << piece;
    EXPECT_EQ(reader.feed("\n\ndata: 1\n\n", events).error().code, ErrorCode::kResourceExhausted);
    EXPECT_TRUE(events.empty());
  }
}

}  // namespace
}  // namespace millrace::http
