#include "loadgen/answer_framing.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::bench {
namespace {

struct Read {
  std::string body;
  AnswerFraming::Step last = AnswerFraming::Step::kMore;
  std::string rest;
};

Read read(AnswerFraming& framing, std::string_view bytes, size_t step) {
  Read read;
  while (!bytes.empty() && read.last == AnswerFraming::Step::kMore) {
    std::string_view piece = bytes.substr(0, step);
    const size_t size = piece.size();
    std::string_view body;
    while ((read.last = framing.next(piece, body)) == AnswerFraming::Step::kBody) read.body += body;
    bytes.remove_prefix(size - piece.size());
  }
  read.rest = bytes;
  return read;
}

struct Good {
  std::string name;
  std::string bytes;
  int status;
  std::string body;
  bool is_event_stream = false;
  bool is_keep_alive = true;
};

TEST(AnswerFraming, ReadsEachFrameHoweverTheBytesAreSplit) {
  const std::vector<Good> cases = {
      {"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
      {"no reason", "HTTP/1.1 404\r\ncontent-length:0\r\n\r\n", 404, ""},
      {"chunks",
       "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: "
       "Chunked\r\n\r\n5\r\nhello\r\nA;x=1\r\n0123456789\r\n0\r\n\r\n",
       200,
       "hello0123456789",
       true},
      {"trailers",
       "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n00\r\na: b\r\n"
       "c: d\r\n\r\n",
       200,
       "x"},
      {"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, ""},
      {"continue",
       "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
       200,
       "x"},
      {"close",
       "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nConnection: Close\r\n\r\nx",
       200,
       "x",
       false,
       false},
      {"1.0", "HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx", 200, "x", false, false},
  };
  for (const Good& c : cases) {
    AnswerFraming framing;
    for (size_t step = 1; step <= c.bytes.size(); ++step) {
      framing.reset();
      const Read all = read(framing, c.bytes, step);
      EXPECT_EQ(all.body, c.body) << c.name << " in pieces of " << step;
      EXPECT_TRUE(framing.is_complete()) << c.name << " in pieces of " << step;
      EXPECT_EQ(framing.status(), c.status) << c.name;
      EXPECT_EQ(framing.is_event_stream(), c.is_event_stream) << c.name;
      EXPECT_EQ(framing.is_keep_alive(), c.is_keep_alive) << c.name;
    }
  }
}

TEST(AnswerFraming, LeavesWhatComesBehindAnAnswer) {
  AnswerFraming framing;
  const Read all = read(framing, "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nxHTTP", 1000);
  EXPECT_EQ(all.last, AnswerFraming::Step::kEnd);
  EXPECT_EQ(all.rest, "HTTP");
}

TEST(AnswerFraming, ABodyWithoutALengthEndsWithTheConnection) {
  AnswerFraming framing;
  EXPECT_EQ(read(framing, "HTTP/1.1 200 OK\r\n\r\nhello", 4).body, "hello");
  EXPECT_FALSE(framing.is_complete());
  EXPECT_TRUE(framing.end_of_connection());
  EXPECT_FALSE(framing.is_keep_alive());

  framing.reset();
  read(framing, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", 4);
  EXPECT_FALSE(framing.end_of_connection()) << "a length that was not reached";
  framing.reset();
  read(framing, "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", 4);
  EXPECT_FALSE(framing.end_of_connection()) << "no last chunk";
}

TEST(AnswerFraming, SaysWhatIsNoFrame) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"SSH-2.0-OpenSSH_9.2\r\n\r\n", "the answer is not HTTP/1.1"},
      {"HTTP/2 200\r\n\r\n", "the answer is not HTTP/1.1"},
      {"HTTP/1.1 2x0 OK\r\n\r\n", "the answer is not HTTP/1.1"},
      {"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "is no header field"},
      {"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n", "is no header field"},
      {"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n", "content-length '-1'"},
      {"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "content-length '2'"},
      {"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\n", "transfer-encoding 'gzip'"},
      {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n", "'xyz' is no chunk size"},
      {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n", "'' is no chunk size"},
      {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\nx\r\n", "does not end in CR LF"},
      {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nxy\r\n", "'y' after a chunk"},
      {"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
       "is no chunk size"},
      {"HTTP/1.1 200 OK\r\nx: " + std::string(70'000, 'y'), "longer than"},
  };
  for (const auto& [bytes, problem] : cases) {
    for (const size_t step : {size_t{1}, size_t{7}, size_t{100'000}}) {
      AnswerFraming framing;
      EXPECT_EQ(read(framing, bytes, step).last, AnswerFraming::Step::kBad) << problem;
      EXPECT_NE(framing.problem().find(problem), std::string::npos) << framing.problem();
    }
  }
}

}  // namespace
}  // namespace millrace::bench
