// What a server must refuse: each case of the list is sent as raw bytes to a real server, which
// must give the status that the list names and serve the next client as if nothing had happened.
#include <string>
#include <vector>

#include "http/test_gzip.h"
#include "http/test_server.h"

namespace millrace::http {
namespace {

struct Case {
  std::string name;
  std::string bytes;
  int status;                   // of the first response; 0: closed without one
  bool is_closed_after = true;  // the connection ends after the response
};

std::string repeat(std::string_view text, size_t n) {
  std::string result;
  for (size_t i = 0; i < n; ++i) result += text;
  return result;
}

std::string get(std::string_view target, std::string_view fields = "") {
  std::string bytes = "GET ";
  return bytes.append(target).append(" HTTP/1.1\r\nHost: x\r\n").append(fields).append("\r\n");
}

std::string post(std::string_view fields, std::string_view body) {
  std::string bytes = "POST /echo HTTP/1.1\r\nHost: x\r\n";
  return bytes.append(fields).append("\r\n").append(body);
}

std::string chunked(std::string_view body) {
  return post("Transfer-Encoding: chunked\r\n", body);
}

std::string post_gzip(const std::string& body, std::string_view coding = "gzip") {
  return post(
      "Content-Encoding: " + std::string(coding) +
          "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n",
      body
  );
}

void expect_outcome(TestServer& server, const Case& test) {
  SCOPED_TRACE(test.name);
  RawPeer peer(server.port());
  peer.send(test.bytes);
  if (test.status == 0) {
    EXPECT_TRUE(peer.is_closed_silently());
  } else {
    const std::optional<PeerResponse> response = peer.read_response();
    ASSERT_TRUE(response) << "closed without a response";
    EXPECT_EQ(response->status, test.status) << response->body;
    EXPECT_EQ(response->header("connection") == "close", test.is_closed_after);
    if (test.is_closed_after) {
      EXPECT_EQ(peer.read_to_end(), "");
    } else {
      peer.send(get("/health"));
      const std::optional<PeerResponse> next = peer.read_response();
      EXPECT_TRUE(next && next->status == 200) << "the connection is of no more use";
    }
  }
  EXPECT_TRUE(server.is_well());
}

void expect_outcomes(const std::vector<Case>& cases, const TestServer::Change& change = {}) {
  TestServer server(change);
  for (const Case& test : cases) expect_outcome(server, test);
}

TEST(RequestRules, A1BadRequestLinesAreRefused) {
  expect_outcomes({
      {"one word", "GET\r\n\r\n", 400},
      {"no method", " / HTTP/1.1\r\n\r\n", 400},
      {"two spaces", "GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"tab", "GET\t/ HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"four words", "GET / x HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"space behind", "GET / HTTP/1.1 \r\nHost: x\r\n\r\n", 400},
      {"method with a colon", "G:T / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"long method", repeat("G", 33) + " / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"relative target", get("health"), 400},
      {"asterisk for GET", get("*"), 400},
      {"two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"binary", std::string("\x80\x01\x02\x03", 4), 400},
      {"one empty line first", "\r\n" + get("/health"), 200, false},
      {"lower-case method", "get /health HTTP/1.1\r\nHost: x\r\n\r\n", 405, false},
  });
}

TEST(RequestRules, A2OtherVersionsAreRefused) {
  expect_outcomes({
      {"HTTP/0.9, which sends no more", "GET /\r\n", 400},
      {"HTTP/3.0", "GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505},
      {"HTTP/2.0", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", 505},
      {"HTTP/1.2", "GET / HTTP/1.2\r\nHost: x\r\n\r\n", 505},
      {"HTTP/1.10", "GET / HTTP/1.10\r\nHost: x\r\n\r\n", 400},
      {"lower case", "GET / http/1.1\r\nHost: x\r\n\r\n", 400},
      {"other protocol", "GET / ICY/1.1\r\nHost: x\r\n\r\n", 400},
  });
}

TEST(RequestRules, A3ToA5HostMustBeOneValidName) {
  std::vector<Case> cases = {
      {"missing", "GET /health HTTP/1.1\r\n\r\n", 400},
      {"two", get("/health", "Host: x\r\n"), 400},
      {"two that differ", get("/health", "Host: y\r\n"), 400},
      {"HTTP/1.0 needs none", "GET /health HTTP/1.0\r\n\r\n", 200},
  };
  for (const char* host :
       {"a/b",
        "a?b",
        "a#b",
        "a@b",
        "a b",
        "a/health?x=",
        "a,b\\c",
        "[::1",
        "[::1]x",
        "[xyz]",
        "a:b",
        "a:123456",
        "a:1:2"}) {
    cases.push_back({host, "GET /health HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n", 400});
  }
  for (const char* host :
       {"localhost", "localhost:80", "127.0.0.1:8000", "[::1]:80", "a.b-c_d", ""}) {
    cases.push_back(
        {host, "GET /health HTTP/1.1\r\nHost: " + std::string(host) + "\r\n\r\n", 200, false}
    );
  }
  expect_outcomes(cases);
}

TEST(RequestRules, A6ToA9MalformedFieldsAreRefused) {
  expect_outcomes({
      {"space before the colon", get("/health", "X-A : b\r\n"), 400},
      {"space in the name", get("/health", "X A: b\r\n"), 400},
      {"no colon", get("/health", "nothing\r\n"), 400},
      {"no name", get("/health", ": b\r\n"), 400},
      {"name beyond ASCII", get("/health", "X-\xc3\xa9: b\r\n"), 400},
      {"bare LF everywhere", "GET /health HTTP/1.1\nHost: x\n\n", 400},
      {"bare LF in a field", get("/health", "A: b\nC: d\r\n"), 400},
      {"bare LF at the end", "GET /health HTTP/1.1\r\nHost: x\r\n\n", 400},
      {"bare CR in a value", get("/health", "A: b\rC: d\r\n"), 400},
      {"CR CR LF", get("/health", "A: b\r\r\n"), 400},
      {"CR before the request", "\rGET /health HTTP/1.1\r\nHost: x\r\n\r\n", 400},
      {"folded with a space", get("/health", "A: b\r\n c\r\n"), 400},
      {"folded with a tab", get("/health", "A: b\r\n\tc\r\n"), 400},
      {"folded first field", "GET /health HTTP/1.1\r\n Host: x\r\n\r\n", 400},
      {"NUL in a value", get("/health", std::string("A: b\0c\r\n", 8)), 400},
      {"NUL in a name", get("/health", std::string("A\0: b\r\n", 7)), 400},
      {"NUL in the request line", std::string("GET /\0 HTTP/1.1\r\nHost: x\r\n\r\n", 28), 400},
      {"escape in a value", get("/health", "A: \x1b[31m\r\n"), 400},
      {"DEL in a value", get("/health", "A: \x7f\r\n"), 400},
      {"bytes beyond ASCII in a value", get("/health", "A: \xc3\xa9\r\n"), 200, false},
      {"empty value", get("/health", "A:\r\n"), 200, false},
  });
}

TEST(RequestRules, A10ToA12LargeHeadsAreRefused) {
  expect_outcomes({
      {"one field of 64 KiB", get("/health", "A: " + repeat("b", 65536) + "\r\n"), 431},
      {"endless field", "GET / HTTP/1.1\r\nHost: x\r\nA: " + repeat("b", 1 << 20), 431},
      {"many long fields", get("/health", repeat("A: " + repeat("b", 1000) + "\r\n", 80)), 431},
      {"just below 64 KiB", get("/health", "A: " + repeat("b", 65000) + "\r\n"), 200, false},
      {"101 fields", get("/health", repeat("A: b\r\n", 100)), 431},
      {"100000 fields", get("/health", repeat("A: b\r\n", 100000)), 431},
      {"100 fields", get("/health", repeat("A: b\r\n", 99)), 200, false},
      {"target over 8 KiB", get("/" + repeat("a", 8192)), 414},
      {"endless target", "GET /" + repeat("a", 1 << 20), 414},
      {"target of 8 KiB", get("/" + repeat("a", 8191)), 404, false},
  });
}

TEST(RequestRules, A13BadEscapesAreRefused) {
  std::vector<Case> cases;
  for (const char* target :
       {"/%",        "/%4",   "/%zz",  "/%4g", "/%00",      "/health%00", "/%0a",
        "/%0d%0a",   "/%1b",  "/%7f",  "/%ff", "/%c0%af",   "/%ed%a0%80", "/%f4%90%80%80",
        "/%5c..%5c", "/a\\b", "/a\"b", "/<a>", "/health#x", "/\xc3\xa9"}) {
    cases.push_back({target, get(target), 400});
  }
  cases.push_back({"escaped letters", get("/he%61lth"), 200, false});
  cases.push_back({"query is not decoded", get("/health?x=%zz"), 200, false});
  cases.push_back({"UTF-8", get("/%c3%a9"), 404, false});
  cases.push_back({"an encoded slash is a slash", get("/models/a%2Fb"), 200, false});
  expect_outcomes(cases);
}

TEST(RequestRules, A14OddPathsAreNotFound) {
  std::vector<Case> cases;
  for (const char* target :
       {"/../health",
        "/./health",
        "/a/../health",
        "//health",
        "/health//",
        "/%2e%2e/health",
        "/%2e/health",
        "/a/%2e%2e/health",
        "/.%2e/health",
        "//x/health",
        "/models/../health",
        "/models/..",
        "http://x//health",
        "http://x/../health"}) {
    cases.push_back({target, get(target), 404});
  }
  cases.push_back({"trailing slash", get("/health/"), 404, false});
  cases.push_back({"an escaped slash in front", get("/%2fhealth"), 404, false});
  cases.push_back({"an escaped slash before a dot segment", get("/models/a%2f..%2fb"), 404});
  cases.push_back({"a path as a name", get("/models/%2Fa%2Fb"), 200, false});
  cases.push_back({"absolute form", get("http://other:80/health?x"), 200, false});
  cases.push_back({"absolute form with user", get("http://a@b/health"), 400});
  cases.push_back({"absolute form without host", get("http:///health"), 400});
  expect_outcomes(cases);
}

TEST(RequestRules, A15AndA16ContentLengthMustBeOneNumber) {
  std::vector<Case> cases;
  for (const char* length :
       {"x",
        "-1",
        "+5",
        "0x5",
        "5 5",
        "5,5",
        "5.0",
        "1e9",
        "",
        "9223372036854775808",
        "18446744073709551616",
        "5;"}) {
    cases.push_back({length, post("Content-Length: " + std::string(length) + "\r\n", "hello"), 400}
    );
  }
  cases.push_back({"two", post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"), 400});
  cases.push_back({"two alike", post("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"), 400});
  cases.push_back({"with spaces", post("Content-Length:  5 \r\n", "hello"), 200, false});
  cases.push_back({"none", post("", ""), 200, false});
  expect_outcomes(cases);
}

TEST(RequestRules, A17AndA18TransferEncodingMustBeChunkedAlone) {
  expect_outcomes({
      {"with length",
       post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
       400},
      {"length behind",
       post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
       400},
      {"twice", post("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"), 400},
      {"two fields", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", ""), 400},
      {"xchunked", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 400},
      {"identity", post("Transfer-Encoding: identity\r\n", ""), 400},
      {"gzip, chunked", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 400},
      {"with a vertical tab",
       post(
           "Transfer-Encoding: \x0b"
           "chunked\r\n",
           "0\r\n\r\n"
       ),
       400},
      {"HTTP/1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
      {"upper case", post("Transfer-Encoding: CHUNKED\r\n", "2\r\nab\r\n0\r\n\r\n"), 200, false},
  });
}

TEST(RequestRules, A19BadChunksAreRefused) {
  std::vector<Case> cases;
  for (const char* size :
       {"-2",
        "+1",
        "0x10",
        " 10",
        "10 ",
        "10000000000000000",
        "FFFFFFFFFFFFFFFF",
        ";a=b",
        "g",
        "",
        "1\t",
        "0000000000000000001"}) {
    cases.push_back({size, chunked(std::string(size) + "\r\nab\r\n0\r\n\r\n"), 400});
  }
  cases.push_back({"LF ends the size", chunked("2\nab\r\n0\r\n\r\n"), 400});
  cases.push_back({"data too long", chunked("2\r\nabc\r\n0\r\n\r\n"), 400});
  cases.push_back({"LF ends the data", chunked("2\r\nab\n0\r\n\r\n"), 400});
  cases.push_back({"NUL in an extension", chunked(std::string("2;\0\r\nab\r\n0\r\n\r\n", 15)), 400}
  );
  cases.push_back({"long extension", chunked("2;" + repeat("a", 300) + "\r\nab\r\n0\r\n\r\n"), 400}
  );
  cases.push_back({"bad trailer", chunked("0\r\nnothing\r\n\r\n"), 400});
  cases.push_back({"length in a trailer", chunked("0\r\nContent-Length: 5\r\n\r\n"), 400});
  cases.push_back({"key in a trailer", chunked("0\r\nauthorization: x\r\n\r\n"), 400});
  cases.push_back({"LF in a trailer", chunked("0\r\nA: b\n\r\n"), 400});
  cases.push_back({"endless trailers", chunked("0\r\n" + repeat("A: b\r\n", 1000)), 431});
  cases.push_back({"extension", chunked("2;a=b\r\nab\r\n0\r\n\r\n"), 200, false});
  cases.push_back({"trailer", chunked("2\r\nab\r\n0\r\nA: b\r\n\r\n"), 200, false});
  cases.push_back({"leading zeros", chunked("002\r\nab\r\n00\r\n\r\n"), 200, false});
  expect_outcomes(cases);
}

TEST(RequestRules, A20ToA22BodiesAreBounded) {
  const auto limit_body = [](HttpServerOptions& options) {
    options.limits.body_bytes_max = 1 << 20;
  };
  expect_outcomes(
      {
          {"65537 chunks", chunked(repeat("1\r\na\r\n", 65537) + "0\r\n\r\n"), 413},
          {"100000 chunks", chunked(repeat("1\r\na\r\n", 100000)), 413},
          {"65536 chunks", chunked(repeat("1\r\na\r\n", 65536) + "0\r\n\r\n"), 200, false},
          {"endless chunks", chunked(repeat("10000\r\n" + repeat("a", 65536) + "\r\n", 40)), 413},
          {"one chunk over the limit", chunked("100001\r\n"), 413},
          {"length over the limit, no byte sent", post("Content-Length: 1048577\r\n", ""), 413},
          {"enormous length", post("Content-Length: 999999999999999999\r\n", ""), 413},
          {"at the limit", post("Content-Length: 1048576\r\n", repeat("a", 1 << 20)), 200, false},
      },
      limit_body
  );
}

TEST(RequestRules, A23AShortBodyGetsNoAnswer) {
  TestServer server;
  for (const std::string& bytes :
       {post("Content-Length: 5\r\n", "hel"), chunked("5\r\nhel"), std::string("GET /hea")}) {
    RawPeer peer(server.port());
    peer.send(bytes);
    peer.half_close();
    EXPECT_TRUE(peer.is_closed_silently());
    EXPECT_TRUE(server.is_well());
  }
}

TEST(RequestRules, A24ContinueIsSentWhenItIsExpected) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(post("Content-Length: 5\r\nExpect: 100-continue\r\n", ""));
  EXPECT_EQ(peer.read_response()->status, 100);
  peer.send("hello");
  EXPECT_EQ(peer.read_response()->body, "hello");
  // Not when the body is there already, nor when the answer is no.
  peer.send(post("Content-Length: 5\r\nExpect: 100-continue\r\n", "hello"));
  EXPECT_EQ(peer.read_response()->status, 200);
  peer.send("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n"
  );
  EXPECT_EQ(peer.read_response()->status, 404);
  EXPECT_EQ(peer.read_to_end(), "");
  expect_outcome(server, {"unknown", post("Content-Length: 1\r\nExpect: 200-ok\r\n", ""), 417});
}

TEST(RequestRules, A25ToA27ContentEncodings) {
  const std::string zipped = gzip("hello");
  const std::string bomb = gzip(std::string(64 << 20, 'a'));
  EXPECT_LT(bomb.size(), 1u << 20);
  const auto limit_body = [](HttpServerOptions& options) {
    options.limits.body_bytes_max = 1 << 20;
  };
  std::string broken = zipped;
  broken[broken.size() - 6] ^= 1;
  expect_outcomes(
      {
          {"unknown", post_gzip(zipped, "br"), 415},
          {"deflate", post_gzip(zipped, "deflate"), 415},
          {"nested", post_gzip(gzip(zipped), "gzip, gzip"), 415},
          {"bomb", post_gzip(bomb), 413},
          {"truncated", post_gzip(zipped.substr(0, zipped.size() - 3)), 400},
          {"bad checksum", post_gzip(broken), 400},
          {"bytes behind", post_gzip(zipped + "x"), 400},
          {"two members", post_gzip(zipped + zipped), 400},
          {"not gzip", post_gzip("hello"), 400},
          {"good", post_gzip(zipped), 200, false},
          {"identity", post_gzip("hello", "identity"), 200, false},
      },
      limit_body
  );
  TestServer server;
  RawPeer peer(server.port());
  peer.send(post_gzip(zipped));
  EXPECT_EQ(peer.read_response()->body, "hello");
}

TEST(RequestRules, A28AndA29JsonPathsTakeJsonOnly) {
  const auto typed = [](std::string_view fields) {
    return "POST /json HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" + std::string(fields) +
           "\r\n{}";
  };
  expect_outcomes({
      {"missing", typed(""), 415, false},
      {"text", typed("Content-Type: text/plain\r\n"), 415, false},
      {"multipart", typed("Content-Type: multipart/form-data; boundary=x\r\n"), 415, false},
      {"latin-1", typed("Content-Type: application/json; charset=iso-8859-1\r\n"), 415, false},
      {"two", typed("Content-Type: application/json\r\nContent-Type: text/plain\r\n"), 400},
      {"plain", typed("Content-Type: application/json\r\n"), 200, false},
      {"utf-8", typed("Content-Type: Application/JSON; Charset=\"UTF-8\"\r\n"), 200, false},
  });
}

TEST(RequestRules, A30ToA32MethodsAndPaths) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/echo"));
  std::optional<PeerResponse> response = peer.read_response();
  EXPECT_EQ(response->status, 405);
  EXPECT_EQ(response->header("allow"), "OPTIONS, POST");
  peer.send("OPTIONS /health HTTP/1.1\r\nHost: x\r\n\r\n");
  response = peer.read_response();
  EXPECT_EQ(response->status, 204);
  EXPECT_EQ(response->header("allow"), "GET, HEAD, OPTIONS");
  peer.send("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(peer.read_response()->status, 204);
  peer.send("HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n");
  response = peer.read_response(true);
  EXPECT_EQ(response->status, 200);
  EXPECT_EQ(response->header("content-length"), "3");
  expect_outcome(server, {"unknown path", get("/nowhere"), 404, false});
  for (const char* method : {"TRACE", "DELETE", "BREW"}) {
    const std::string bytes = std::string(method) + " /health HTTP/1.1\r\nHost: x\r\n\r\n";
    expect_outcome(server, {method, bytes, 405, false});
  }
  for (const char* target : {"example.com:443", "/health"}) {
    const std::string bytes = "CONNECT " + std::string(target) + " HTTP/1.1\r\nHost: x\r\n\r\n";
    expect_outcome(server, {target, bytes, 405, false});
  }
}

TEST(RequestRules, A33AGoodRequestIsAnsweredBeforeTheBadOneBehindIt) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/health") + "bad\r\n\r\n" + get("/health"));
  EXPECT_EQ(peer.read_response()->status, 200);
  EXPECT_EQ(peer.read_response()->status, 400);
  EXPECT_EQ(peer.read_to_end(), "");
  EXPECT_TRUE(server.is_well());
}

TEST(RequestRules, A34ToA36KeysAreCheckedOnTheRoutedPath) {
  std::vector<Case> cases = {
      {"no key", get("/key"), 401, false},
      {"wrong scheme", get("/key", "Authorization: Basic secret\r\n"), 401, false},
      {"wrong key", get("/key", "Authorization: Bearer secreT\r\n"), 401, false},
      {"two keys", get("/key", "Authorization: x\r\nAuthorization: Bearer secret\r\n"), 400},
      {"key of 1 MB", get("/key", "Authorization: Bearer " + repeat("a", 1 << 20) + "\r\n"), 431},
      {"path in the host", "GET /key HTTP/1.1\r\nHost: a/health?x=\r\n\r\n", 400},
      {"public host in the target", get("http://health/key"), 401, false},
      {"escaped", get("/%6bey"), 401, false},
      {"right", get("/key", "Authorization: Bearer secret\r\n"), 200, false},
  };
  expect_outcomes(cases);
}

TEST(RequestRules, A37BadRequestIdsAreReplaced) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(get("/id", "X-Request-Id: a-B_c.9\r\n"));
  std::optional<PeerResponse> response = peer.read_response();
  EXPECT_EQ(response->body, "a-B_c.9");
  EXPECT_EQ(response->header("x-request-id"), "a-B_c.9");
  for (const std::string& id :
       {repeat("a", 129),
        std::string("a b"),
        std::string("a\xc3\xa9"),
        std::string(""),
        std::string("a%0d%0aX: y"),
        std::string("a;b")}) {
    peer.send(get("/id", "X-Request-Id: " + id + "\r\n"));
    response = peer.read_response();
    EXPECT_NE(response->body, id);
    EXPECT_TRUE(is_valid_request_id(response->body)) << response->body;
    EXPECT_EQ(response->header("x-request-id"), response->body);
  }
}

TEST(RequestRules, A38AcceptIsIgnored) {
  expect_outcomes({{"accept", get("/health", "Accept: image/png\r\n"), 200, false}});
}

TEST(RequestRules, A39OtherProtocolsOnThePort) {
  expect_outcomes({
      {"h2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"h2c upgrade is answered in HTTP/1.1",
       get("/health",
           "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n"),
       200,
       false},
      {"websocket upgrade",
       get("/health", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"),
       200,
       false},
      {"SSH", "SSH-2.0-OpenSSH_9.2\r\n", 400},
  });
}

TEST(RequestRules, A40TlsOnAPlainPortIsClosedWithOneLine) {
  TestServer server;
  RawPeer peer(server.port());
  peer.send(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11));
  EXPECT_TRUE(peer.is_closed_silently());
  EXPECT_TRUE(server.is_well());
  const std::vector<std::string> lines = server.lines();
  EXPECT_EQ(
      std::count_if(
          lines.begin(),
          lines.end(),
          [](const std::string& line) { return line.starts_with("tls_on_plain_port"); }
      ),
      1
  );
}

}  // namespace
}  // namespace millrace::http
