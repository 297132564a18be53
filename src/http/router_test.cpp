#include "http/router.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http/address.h"
#include "http/client.h"

namespace millrace::http {
namespace {

Route route(std::string method, std::string pattern) {
  return {
      .method = std::move(method), .pattern = std::move(pattern), .handler = [](const auto&) {}};
}

// The pattern that answers and the values of its names; or the allowed methods.
std::string find(const Router& router, std::string_view method, std::string_view path) {
  const auto found = router.find(method, path);
  std::string text;
  if (const auto* none = std::get_if<Router::NoRoute>(&found)) {
    text = "none";
    for (const std::string& allowed : none->allowed) text += " " + allowed;
    return text;
  }
  const auto& match = *std::get_if<Router::Match>(&found);
  text = match.route->method + " " + match.route->pattern;
  for (const auto& [name, value] : match.path_values) text += " " + name + "=" + value;
  return text;
}

TEST(Router, PrefersLiteralsToNamesAndNamesToTheRest) {
  Router router;
  for (const char* pattern : {"/", "/v1/{rest...}", "/v1/{a}/x", "/v1/models", "/v1/{a}"}) {
    ASSERT_TRUE(router.add(route("GET", pattern)).ok()) << pattern;
  }
  EXPECT_EQ(find(router, "GET", "/"), "GET /");
  EXPECT_EQ(find(router, "GET", "/v1/models"), "GET /v1/models");
  EXPECT_EQ(find(router, "GET", "/v1/other"), "GET /v1/{a} a=other");
  EXPECT_EQ(find(router, "GET", "/v1/a/x"), "GET /v1/{a}/x a=a");
  EXPECT_EQ(find(router, "GET", "/v1/models/x"), "GET /v1/{a}/x a=models");
  EXPECT_EQ(find(router, "GET", "/v1/a/y/z"), "GET /v1/{rest...} rest=a/y/z");
  for (const char* path : {"/v1", "/v1/", "/v2", "/v1models", "/V1/models", "//"}) {
    EXPECT_EQ(find(router, "GET", path), "none") << path;
  }
}

TEST(Router, NamesTheAllowedMethods) {
  Router router;
  ASSERT_TRUE(router.add(route("GET", "/a")).ok());
  ASSERT_TRUE(router.add(route("POST", "/a")).ok());
  ASSERT_TRUE(router.add(route("DELETE", "/{x}")).ok());
  EXPECT_EQ(find(router, "HEAD", "/a"), "GET /a");
  EXPECT_EQ(find(router, "DELETE", "/a"), "DELETE /{x} x=a");
  EXPECT_EQ(find(router, "PUT", "/a"), "none DELETE GET HEAD OPTIONS POST");
  EXPECT_EQ(find(router, "PUT", "/b"), "none DELETE OPTIONS");
  EXPECT_EQ(find(router, "PUT", "/b/c"), "none");
  EXPECT_EQ(find(router, "TRACE", "/b"), "none DELETE OPTIONS");
  EXPECT_EQ(find(router, "CONNECT", "*"), "none DELETE GET HEAD OPTIONS POST");
}

TEST(Router, RefusesBadPatternsAndSecondRoutes) {
  Router router;
  for (const char* pattern : {"", "a", "//", "/a//b", "/a/", "/{}", "/{...}", "/{a...}/b"}) {
    EXPECT_FALSE(router.add(route("GET", pattern)).ok()) << pattern;
  }
  ASSERT_TRUE(router.add(route("GET", "/a")).ok());
  EXPECT_EQ(router.add(route("GET", "/a")).error().where, "GET /a");
  EXPECT_TRUE(router.add(route("POST", "/a")).ok());
  ASSERT_TRUE(router.add(route("GET", "/{x}")).ok());
  EXPECT_FALSE(router.add(route("GET", "/{y}")).ok()) << "the same paths under another name";
  EXPECT_EQ(router.routes().size(), 3u);
}

TEST(Address, IsReadAndWritten) {
  for (const char* text : {"127.0.0.1:8000", "[::1]:0", "localhost:80", "unix:/run/x.sock"}) {
    const Result<Address> address = parse_address(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(to_string(*address), text);
  }
  for (const char* text :
       {"", ":80", "a", "a:", "a:x", "a:65536", "a:-1", "::1:80", "unix:", "[]:1"}) {
    EXPECT_FALSE(parse_address(text).ok()) << text;
  }
}

TEST(BaseUrl, IsRead) {
  struct Case {
    const char* text;
    const char* address;
    const char* path;
    bool is_tls;
  };
  for (const Case& test : {
           Case{"http://localhost:8000", "localhost:8000", "", false},
           Case{"http://localhost/", "localhost:80", "", false},
           Case{"HTTPS://a.b/v1/", "a.b:443", "/v1", true},
           Case{"http://[::1]:9/v1", "[::1]:9", "/v1", false},
           Case{"http://[::1]", "[::1]:80", "", false},
           Case{"unix:/run/x.sock", "unix:/run/x.sock", "", false},
       }) {
    const Result<BaseUrl> url = parse_base_url(test.text);
    ASSERT_TRUE(url.ok()) << test.text;
    EXPECT_EQ(to_string(url->address), test.address);
    EXPECT_EQ(url->path, test.path);
    EXPECT_EQ(url->is_tls, test.is_tls);
  }
  for (const char* text :
       {"",
        "localhost",
        "ftp://a",
        "http://",
        "http:///x",
        "http://a@b",
        "http://a b",
        "http://a?x",
        "http://a/x?y",
        "http://a/x#y",
        "http://a:b",
        "http://a/\r\n"}) {
    EXPECT_FALSE(parse_base_url(text).ok()) << text;
  }
}

}  // namespace
}  // namespace millrace::http
