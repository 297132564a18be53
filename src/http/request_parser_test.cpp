// The parser alone: splits, and agreement with another implementation.
#include "http/request_parser.h"

#include <gtest/gtest.h>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <string>
#include <vector>

#include "http/inflater.h"
#include "http/test_gzip.h"

namespace millrace::http {
namespace {

// Everything that the parser makes of `bytes`, fed in the given pieces, as one text.
std::string parse(const std::vector<std::string_view>& pieces, const HttpLimits& limits = {}) {
  RequestParser parser(limits);
  std::string outcome;
  for (std::string_view piece : pieces) {
    while (!piece.empty() && parser.state() != ParserState::kRefused) {
      piece.remove_prefix(parser.feed(piece));
      if (parser.state() == ParserState::kHeadComplete) parser.read_body();
      if (parser.state() != ParserState::kComplete) continue;
      const Request request = parser.take();
      outcome.append(request.method()).append(" ").append(request.path());
      outcome.append("?").append(request.head.query()).append("\n");
      for (size_t i = 0; i < request.head.num_headers(); ++i) {
        outcome.append(request.head.header_name(i)).append("=");
        outcome.append(request.head.header_value(i)).append("\n");
      }
      outcome.append(request.body).append("\n");
    }
  }
  if (parser.state() == ParserState::kRefused) {
    outcome.append(std::to_string(parser.refusal().status)).append(parser.refusal().message);
  } else if (parser.has_started()) {
    outcome.append("unfinished");
  }
  return outcome;
}

const std::vector<std::string>& examples() {
  static const std::vector<std::string> kExamples = {
      "GET /a%20b?q=1 HTTP/1.1\r\nHost: x:1\r\nA:b \t\r\nC: \r\n\r\n",
      "\r\nPOST / HTTP/1.0\r\nContent-Length: 3\r\n\r\nabcGET /x HTTP/1.1\r\nHost: y\r\n\r\n",
      "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "2;e=f\r\nab\r\n1\r\nc\r\n0\r\nT: u\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n",
      "GET http://h/p HTTP/1.1\r\nHost: x\r\nbad field\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
      "GET /\r\n",
  };
  return kExamples;
}

TEST(RequestParser, GivesTheSameForEverySplit) {
  for (const std::string& bytes : examples()) {
    const std::string_view all = bytes;
    const std::string whole = parse({all});
    for (size_t i = 0; i <= all.size(); ++i) {
      EXPECT_EQ(parse({all.substr(0, i), all.substr(i)}), whole) << bytes << " split at " << i;
    }
    std::vector<std::string_view> single;
    for (size_t i = 0; i < all.size(); ++i) single.push_back(all.substr(i, 1));
    EXPECT_EQ(parse(single), whole);
  }
}

TEST(RequestParser, AgreesWithBeast) {
  namespace beast_http = boost::beast::http;
  for (const std::string bytes :
       {"GET /a?q=1 HTTP/1.1\r\nHost: x\r\nA: b\r\nCookie: c=d; e=f\r\n\r\n",
        "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n"}) {
    beast_http::request_parser<beast_http::string_body> theirs;
    theirs.eager(true);
    boost::system::error_code error;
    theirs.put(boost::asio::buffer(bytes), error);
    ASSERT_FALSE(error) << error.message();
    ASSERT_TRUE(theirs.is_done());
    HttpLimits limits;
    RequestParser ours(limits);
    std::string_view rest = bytes;
    rest.remove_prefix(ours.feed(rest));
    ours.read_body();
    if (!rest.empty()) ours.feed(rest);
    const Request request = ours.take();
    EXPECT_EQ(request.body, theirs.get().body());
    EXPECT_EQ(request.method(), std::string_view(theirs.get().method_string()));
    for (const auto& field : theirs.get()) {
      const std::string_view name = field.name_string();
      EXPECT_EQ(request.header(name), std::string_view(field.value())) << name;
    }
  }
}

TEST(RequestParser, HoldsNoMoreThanItsLimits) {
  HttpLimits limits;
  limits.header_bytes_max = 1024;
  limits.target_bytes_max = 100;
  RequestParser parser(limits);
  size_t num_fed = 0;
  parser.feed("GET / HTTP/1.1\r\nA: ");
  while (parser.state() == ParserState::kHead && num_fed < 100'000) num_fed += parser.feed("aaaa");
  EXPECT_EQ(parser.refusal().status, 431);
  EXPECT_LT(num_fed, 1100u);
}

// Bytes that may stand in the budget's way: none but those of bodies that are not complete.
TEST(RequestParser, SharesABudgetOfBodies) {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n";
  const std::string body(200'000, 'a');
  constexpr size_t kBudgetBytes = 140'000;  // 64 KiB of each are free
  HttpLimits limits;
  ByteBudget budget(kBudgetBytes);
  const auto begin = [&](RequestParser& parser) {
    parser.feed(head);
    parser.read_body();
    parser.feed(std::string_view(body).substr(1));
    return parser.state();
  };
  {
    RequestParser first(limits, &budget);
    EXPECT_EQ(begin(first), ParserState::kBody);
    RequestParser second(limits, &budget);
    EXPECT_EQ(begin(second), ParserState::kRefused);
    EXPECT_EQ(second.refusal().status, 503);
    first.feed("a");
    EXPECT_EQ(first.state(), ParserState::kComplete);
    RequestParser third(limits, &budget);
    EXPECT_EQ(begin(third), ParserState::kBody) << "no complete body counts, nor a refused one";
  }
  EXPECT_TRUE(budget.try_take(kBudgetBytes)) << "nor one that is gone";
}

TEST(RequestParser, CountsBodiesAsTheyAreDecompressed) {
  HttpLimits limits;
  ByteBudget budget(500'000);
  RequestParser parser(limits, &budget);
  parser.feed(
      "POST / HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 10000\r\n\r\n"
  );
  parser.read_body();
  parser.feed(gzip(std::string(1'000'000, 'a')));
  EXPECT_EQ(parser.state(), ParserState::kRefused);
  EXPECT_EQ(parser.refusal().status, 503);
}

TEST(Limits, AreCheckedByName) {
  EXPECT_TRUE(validate({}).ok());
  EXPECT_EQ(validate({.header_bytes_max = 0}).error().where, "header_bytes_max");
  EXPECT_EQ(validate({.target_bytes_max = 1 << 20}).error().where, "target_bytes_max");
  HttpLimits limits;
  limits.write_timeout = std::chrono::milliseconds(0);
  EXPECT_EQ(validate(limits).error().where, "write_timeout");
}

TEST(Inflater, RefusesEveryTruncationAndTakesEverySplit) {
  // gzip of "hello", as `printf hello | gzip -n` makes it.
  const std::string zipped(
      "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36\x05\x00"
      "\x00\x00",
      25
  );
  for (size_t i = 0; i <= zipped.size(); ++i) {
    Inflater inflater(5);
    std::string out;
    InflateStatus status = inflater.feed(std::string_view(zipped).substr(0, i), out);
    EXPECT_EQ(status == InflateStatus::kDone, i == zipped.size());
    if (i < zipped.size()) status = inflater.feed(std::string_view(zipped).substr(i), out);
    EXPECT_EQ(status, InflateStatus::kDone);
    EXPECT_EQ(out, "hello");
  }
  Inflater small(4);
  std::string out;
  EXPECT_EQ(small.feed(zipped, out), InflateStatus::kTooLarge);
  EXPECT_EQ(small.feed(zipped, out), InflateStatus::kCorrupt);
  EXPECT_LE(out.size(), 4u);
}

}  // namespace
}  // namespace millrace::http
