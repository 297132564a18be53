#include "http/cors.h"

#include <gtest/gtest.h>

#include "http/request_parser.h"
#include "http/test_server.h"

namespace millrace::http {
namespace {

TestServer::Change allow(std::vector<std::string> origins) {
  return [origins = std::move(origins)](HttpServerOptions& options) {
    options.cors = CorsPolicy(origins);
  };
}

PeerResponse ask(TestServer& server, const std::string& line, const std::string& fields) {
  RawPeer peer(server.port());
  peer.send(line + " HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n");
  return peer.read_response().value_or(PeerResponse());
}

TEST(Cors, SaysNothingUnlessItIsAllowed) {
  TestServer silent;
  EXPECT_EQ(
      ask(silent, "GET /health", "Origin: http://a\r\n").header("access-control-allow-origin"), ""
  );
  TestServer server(allow({"http://a"}));
  const PeerResponse other = ask(server, "GET /health", "Origin: http://b\r\n");
  EXPECT_EQ(other.header("access-control-allow-origin"), "");
  EXPECT_EQ(ask(server, "GET /health", "").header("access-control-allow-origin"), "");
}

TEST(Cors, NamesTheOriginOnAnswersAndOnErrors) {
  TestServer server(allow({"http://a", "http://b"}));
  for (const auto& [line, status] :
       {std::pair("GET /health", 200),
        std::pair("GET /nowhere", 404),
        std::pair("GET /key", 401)}) {
    const PeerResponse response = ask(server, line, "Origin: http://b\r\n");
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(response.header("access-control-allow-origin"), "http://b") << line;
    EXPECT_EQ(response.header("vary"), "Origin");
  }
  TestServer open(allow({"*"}));
  EXPECT_EQ(
      ask(open, "GET /health", "Origin: http://c\r\n").header("access-control-allow-origin"), "*"
  );
}

Request request_with(std::string_view fields) {
  HttpLimits limits;
  RequestParser parser(limits);
  const std::string head = "GET / HTTP/1.1\r\nHost: me:80\r\n" + std::string(fields) + "\r\n";
  EXPECT_EQ(parser.feed(head), head.size());
  parser.read_body();
  return parser.take();
}

TEST(Cors, KnowsPagesOfOtherOrigins) {
  const CorsPolicy nobody;
  const CorsPolicy friends({"http://a"});
  const CorsPolicy everybody({"*"});
  struct Case {
    const char* fields;
    bool is_foreign;
    bool is_foreign_to_friends;
  };
  for (const auto& [fields, is_foreign, is_foreign_to_friends] : {
           Case{"", false, false},  // no browser
           Case{"Origin: http://me:80\r\n", false, false},
           Case{"Origin: http://me\r\n", true, true},  // another port, for all that is known
           Case{"Origin: http://a\r\n", true, false},
           Case{"Origin: null\r\n", true, true},
           Case{"Sec-Fetch-Site: none\r\n", false, false},
           Case{"Sec-Fetch-Site: same-origin\r\nOrigin: https://me\r\n", false, false},
           Case{"Sec-Fetch-Site: same-site\r\n", true, true},
           Case{"Sec-Fetch-Site: cross-site\r\n", true, true},
           Case{"Sec-Fetch-Site: cross-site\r\nOrigin: http://a\r\n", true, false},
       }) {
    const Request request = request_with(fields);
    EXPECT_EQ(nobody.is_foreign(request), is_foreign) << fields;
    EXPECT_EQ(friends.is_foreign(request), is_foreign_to_friends) << fields;
    EXPECT_FALSE(everybody.is_foreign(request)) << fields;
  }
}

TEST(Cors, ReadsOriginsAsBrowsersWriteThem) {
  for (const auto& [text, expected] :
       {std::pair("*", "*"),
        std::pair("https://example.org", "https://example.org"),
        std::pair("HTTPS://Example.org:443", "https://example.org"),
        std::pair("http://localhost:3000", "http://localhost:3000"),
        std::pair("http://[::1]:80", "http://[::1]"),
        std::pair("https://127.0.0.1:80", "https://127.0.0.1:80"),
        std::pair("chrome-extension://abc", "chrome-extension://abc")}) {
    const Result<std::string> origin = parse_origin(text);
    ASSERT_TRUE(origin) << text;
    EXPECT_EQ(*origin, expected);
  }
}

// Any text was taken, and matched nothing.
TEST(Cors, RefusesWhatNoOriginIs) {
  for (const char* text :
       {"",
        "example.org",
        "[\"*\"]",
        "https://",
        "https://a/",
        "https://a b",
        "https://a:",
        "https://a:99999",
        "https://a:+1",
        "https://u@a",
        "https://[::1",
        "https://*.example.org",
        "://a",
        "null"}) {
    EXPECT_FALSE(parse_origin(text)) << text;
  }
}

TEST(Cors, AnswersPreflights) {
  TestServer server(allow({"*"}));
  const PeerResponse response =
      ask(server,
          "OPTIONS /echo",
          "Origin: http://a\r\nAccess-Control-Request-Method: POST\r\n"
          "Access-Control-Request-Headers: authorization, content-type\r\n");
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.header("access-control-allow-origin"), "*");
  EXPECT_EQ(response.header("access-control-allow-methods"), "OPTIONS, POST");
  EXPECT_EQ(response.header("access-control-allow-headers"), "authorization, content-type");
}

}  // namespace
}  // namespace millrace::http
