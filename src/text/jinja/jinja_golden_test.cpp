// Small templates against what jinja2 itself wrote (tools/goldens/chat_template_goldens.py).
#include <gtest/gtest.h>

#include "base/json.h"
#include "text/jinja/template.h"

namespace millrace::jinja {
namespace {

using std::chrono::year;

// The moment that the generator gives its templates.
std::chrono::local_seconds golden_now() {
  using namespace std::chrono_literals;
  return std::chrono::local_days{year{2024} / 7 / 26} + 13h + 5min + 9s;
}

std::string text_of(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr ? "" : std::string(value->get_string());
}

// Of errors that a template raises on purpose, or gets for a missing variable, people see the text.
bool is_message_promised(const std::string& kind) {
  return kind == "TemplateError" || kind == "UndefinedError" || kind == "SecurityError";
}

std::string render(
    const std::string& source, const std::vector<Variable>& variables, bool& failed
) {
  const Result<Template> parsed = Template::parse(source);
  failed = !parsed;
  if (!parsed) return parsed.error().message;
  const Result<Rendered> rendered = parsed->render(variables, golden_now());
  failed = !rendered;
  return rendered ? rendered->text : rendered.error().message;
}

TEST(JinjaGolden, EverySnippetGivesWhatJinja2Gives) {
  const Result<json::value> goldens =
      read_json_file(MILLRACE_SOURCE_DIR "/tests/golden/chat_templates/snippets.json");
  ASSERT_TRUE(goldens) << goldens.error().message;
  const json::object& document = goldens->get_object();
  std::vector<Variable> variables;
  for (const auto& [name, value] : document.at("context").get_object()) {
    variables.push_back({std::string(name), value, true});
  }
  const json::array& snippets = document.at("snippets").get_array();
  ASSERT_GE(snippets.size(), 300u);
  for (const json::value& snippet : snippets) {
    const json::object& golden = snippet.get_object();
    const std::string source = text_of(golden, "template");
    const std::string kind = text_of(golden, "kind");
    bool failed = false;
    const std::string result = render(source, variables, failed);
    EXPECT_EQ(failed, !kind.empty()) << source << "\n" << result;
    if (kind.empty()) {
      EXPECT_EQ(result, text_of(golden, "text")) << source;
    } else if (is_message_promised(kind)) {
      EXPECT_EQ(result, text_of(golden, "error")) << source;
    }
  }
}

}  // namespace
}  // namespace millrace::jinja
