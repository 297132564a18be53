#include "bench/response_reader.h"

#include <gtest/gtest.h>

#include <string>

namespace millrace::bench {
namespace {

constexpr std::string_view kStream =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    "b\r\ndata: {}\n\nd\r\n14\r\nata: {\"a\":\"\\n\\n\"}\n\nx\r\n"
    "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";

TEST(ResponseReader, CountsTheEventsOfAStreamHoweverItIsCut) {
  for (size_t cut = 0; cut <= kStream.size(); ++cut) {
    ResponseReader reader;
    reader.next(true);
    for (const std::string_view part : {kStream.substr(0, cut), kStream.substr(cut)}) {
      if (part.empty()) continue;
      const Result<size_t> taken = reader.feed(part);
      ASSERT_TRUE(taken.ok()) << taken.error().message;
      EXPECT_EQ(*taken, part.size());
    }
    ASSERT_TRUE(reader.is_complete()) << cut;
    EXPECT_TRUE(reader.is_event_stream());
    EXPECT_EQ(reader.num_events(), 3u);
    EXPECT_TRUE(reader.ends_with_done());
    EXPECT_EQ(reader.body().size(), 0xbu + 0x14u + 0xeu);
  }
}

TEST(ResponseReader, ReadsPipelinedResponsesOneByOne) {
  const std::string one = "HTTP/1.1 400 Bad Request\r\nCONTENT-LENGTH: 2\r\n\r\n{}";
  const std::string three = one + one + one;
  ResponseReader reader;
  std::string_view rest = three;
  for (int i = 0; i < 3; ++i) {
    const Result<size_t> taken = reader.feed(rest);
    ASSERT_TRUE(taken.ok());
    EXPECT_EQ(*taken, one.size());
    EXPECT_TRUE(reader.is_complete());
    EXPECT_EQ(reader.status(), 400);
    rest.remove_prefix(*taken);
    reader.next(false);
  }
}

TEST(ResponseReader, RefusesWrongFraming) {
  for (const std::string_view bytes : {
           "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Type: a\r\n\r\n",
           "HTTP/1.1 200 OK\r\nContent-Length: 1x\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\n",
           "nonsense nonsense nonsense\r\n\r\n",
       }) {
    ResponseReader reader;
    EXPECT_FALSE(reader.feed(bytes).ok()) << bytes;
  }
}

TEST(ResponseReader, CountsBlankLinesAcrossItsBlocks) {
  for (size_t size = 1; size < 400; ++size) {
    for (size_t at = 0; at + 1 < size; at += 7) {
      std::string bytes(size, 'x');
      bytes[at] = bytes[at + 1] = '\n';
      EXPECT_EQ(count_blank_lines('x', bytes), 1u) << size << " " << at;
    }
  }
  EXPECT_EQ(count_blank_lines('\n', "\nx"), 1u);
  EXPECT_EQ(count_blank_lines('\n', ""), 0u);
  EXPECT_EQ(count_blank_lines(' ', std::string(1000, '\n')), 999u);
}

}  // namespace
}  // namespace millrace::bench
