#include "server/page.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "server/page_files.h"

namespace millrace {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string header(const http::Response& response, std::string_view name) {
  const auto found = std::ranges::find(response.headers, name, &http::Header::name);
  return found == response.headers.end() ? "" : found->value;
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Relative addresses that a file of the page loads.
std::vector<std::string> references(const std::string& text) {
  const std::regex pattern(R"re((?:src=|href=|from )"([^"]+)")re");
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match) {
    found.push_back((*match)[1]);
  }
  return found;
}

TEST(Page, IsTheFilesOfItsFolderByteForByte) {
  for (const EmbeddedFile& file : server_page_files()) {
    const std::string path = MILLRACE_SOURCE_DIR "/src/server/page" + std::string(file.path);
    EXPECT_TRUE(file.content == read(path)) << path;
  }
}

TEST(Page, IsSmall) {
  size_t num_bytes = 0;
  for (const EmbeddedFile& file : server_page_files()) num_bytes += file.content.size();
  EXPECT_LT(num_bytes, 40'000);
}

TEST(Page, AnswersEachOfItsPathsWithItsType) {
  for (const std::string_view path : page_paths()) {
    const std::optional<http::Response> response = page_file(path);
    ASSERT_TRUE(response) << path;
    EXPECT_EQ(response->status, 200);
    EXPECT_FALSE(response->body.empty());
    EXPECT_EQ(header(*response, "x-content-type-options"), "nosniff");
    EXPECT_EQ(header(*response, "cache-control"), "no-cache");
  }
  EXPECT_EQ(header(*page_file("/"), "content-type"), "text/html; charset=utf-8");
  EXPECT_EQ(header(*page_file("/app.js"), "content-type"), "text/javascript; charset=utf-8");
  EXPECT_EQ(header(*page_file("/style.css"), "content-type"), "text/css; charset=utf-8");
  EXPECT_EQ(header(*page_file("/icon.svg"), "content-type"), "image/svg+xml");
}

TEST(Page, KnowsNoOtherPath) {
  for (const char* path :
       {"", "/index.html", "index.html", "app.js", "/none.js", "/../page.cpp", "//app.js", "/v1"}) {
    EXPECT_FALSE(page_file(path)) << path;
  }
}

TEST(Page, LoadsNothingThatTheServerDoesNotHave) {
  const std::vector<std::string_view> paths = page_paths();
  const std::vector<std::string> routes = {"/openapi.json", "/metrics"};
  for (const EmbeddedFile& file : server_page_files()) {
    for (std::string reference : references(std::string(file.content))) {
      EXPECT_EQ(reference.find(':'), std::string::npos) << reference;
      if (reference.starts_with("./")) reference.erase(0, 2);
      const std::string path = "/" + reference;
      if (std::ranges::find(routes, path) != routes.end()) continue;
      EXPECT_THAT(paths, Contains(path));
    }
  }
}

TEST(Page, KeepsItsOwnPolicy) {
  const http::Response index = *page_file("/");
  EXPECT_THAT(header(index, "content-security-policy"), HasSubstr("default-src 'none'"));
  EXPECT_THAT(header(index, "content-security-policy"), HasSubstr("script-src 'self'"));
  const std::string& html = index.body;
  EXPECT_EQ(html.find("<style"), std::string::npos);
  EXPECT_FALSE(std::regex_search(html, std::regex(R"(<script(?![^>]* src=))")));
  EXPECT_FALSE(std::regex_search(html, std::regex(R"(<[^>]* (style|on\w+)=)")));
  for (const EmbeddedFile& file : server_page_files()) {
    EXPECT_EQ(file.content.find("innerHTML"), std::string::npos) << file.path;
  }
}

TEST(Page, IsSentOnceToABrowserThatKeepsIt) {
  const std::string tag = header(*page_file("/app.js"), "etag");
  ASSERT_THAT(tag, testing::MatchesRegex("\"[0-9a-f]{16}\""));
  EXPECT_NE(tag, header(*page_file("/"), "etag"));
  for (const std::string& field : {tag, "W/" + tag, "\"x\" ,\t" + tag + " ", std::string("*")}) {
    const http::Response response = *page_file("/app.js", field);
    EXPECT_EQ(response.status, 304) << field;
    EXPECT_TRUE(response.body.empty());
    EXPECT_EQ(header(response, "etag"), tag);
  }
  for (const std::string& field :
       {std::string(), std::string("\"x\""), std::string(", ,"), tag.substr(0, 9)}) {
    EXPECT_EQ(page_file("/app.js", field)->status, 200) << field;
  }
}

}  // namespace
}  // namespace millrace
