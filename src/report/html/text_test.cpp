#include "report/html/text.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace::bench {
namespace {

TEST(HtmlText, EscapesWhatIsMarkup) {
  EXPECT_EQ(
      html_escaped("<a href=\"x\">'&'</a>"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;"
  );
  EXPECT_EQ(html_escaped("größer\n→"), "größer\n→");
}

TEST(HtmlText, ReplacesWhatIsNoText) {
  EXPECT_EQ(html_escaped(std::string_view("a\0b\x1B", 4)), "a\uFFFDb\uFFFD");
  EXPECT_EQ(html_escaped("\xC3"), "\uFFFD");                      // cut short
  EXPECT_EQ(html_escaped("\xC0\xAF"), "\uFFFD\uFFFD");            // a slash the long way
  EXPECT_EQ(html_escaped("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(html_escaped("\xF4\x90\x80\x80x"), "\uFFFD\uFFFD\uFFFD\uFFFDx");
}

TEST(HtmlText, JsonForAScriptIsTheSameValue) {
  const std::string evil = "</script><!-- & \xE2\x80\xA8\xE2\x80\xA9 {{ x }} {% raw %} {\"a\":{}}";
  const json::value value = {{"a", {{"b", evil}}}, {evil, 1}};
  const std::string text = script_json(value);
  EXPECT_EQ(text.find('<'), text.npos);
  EXPECT_EQ(text.find("{{"), text.npos);
  EXPECT_EQ(text.find("{%"), text.npos);
  EXPECT_EQ(text.find("\xE2\x80\xA8"), text.npos);
  const auto parsed = parse_json(text);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, value);
}

// RFC 4648, section 10.
TEST(HtmlText, Base64IsThatOfTheRfc) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
      {"\xFF\xFE", "//4="}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(base64(bytes), text);
}

TEST(HtmlText, ValuesOfATemplateAreNotLookedInto) {
  EXPECT_EQ(fill_template("<{{a}}|{{b}}|{{a}}>", {{"a", "{{b}}"}, {"b", "2"}}), "<{{b}}|2|{{b}}>");
}

TEST(HtmlText, FiguresHaveAboutThreeDigits) {
  const std::pair<double, std::string_view> cases[] = {
      {0.0, "0.00"},
      {0.00423, "0.0042"},
      {0.5, "0.50"},
      {3.14159, "3.14"},
      {9.996, "10.0"},
      {42.25, "42.2"},
      {99.96, "100"},
      {999.6, "1,000"},
      {12345.4, "12,345"},
      {-1234567.0, "-1,234,567"},
      {-12.34, "-12.3"},
      {std::numeric_limits<double>::infinity(), "∞"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(figure_text(value), text);
  EXPECT_EQ(count_text(1'000'000), "1,000,000");
  EXPECT_EQ(count_text(-100), "-100");
}

}  // namespace
}  // namespace millrace::bench
