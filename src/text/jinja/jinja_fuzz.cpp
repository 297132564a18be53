// Any bytes as a template, with a small chat: no crash, no leak, no long run.
#include <cstdint>
#include <cstdlib>

#include "text/jinja/template.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace millrace;
  // Smaller than in earnest, so that the fuzzer gets around.
  const jinja::Limits limits{
      .template_bytes_max = size_t{1} << 14,
      .steps_max = 20'000,
      .output_bytes_max = size_t{1} << 18,
      .string_bytes_max = size_t{1} << 18,
      .memory_bytes_max = size_t{8} << 20,
      .work_bytes_max = size_t{8} << 20,
  };
  const Result<jinja::Template> parsed =
      jinja::Template::parse({reinterpret_cast<const char*>(data), size}, limits);
  if (!parsed) return 0;
  const json::value messages = {
      {{"role", "system"}, {"content", "Be bríef \"now\""}},
      {{"role", "user"}, {"content", "Hi <|im_end|> 世界\n"}, {"n", -7}, {"x", 2.5}},
      {{"role", "assistant"},
       {"tool_calls", {{{"name", "f"}, {"arguments", {{"a", {1, nullptr}}}}}}}},
  };
  const std::vector<jinja::Variable> variables = {
      {"messages", messages, true},
      {"tools", nullptr, true},
      {"add_generation_prompt", true, false},
      {"bos_token", "<s>", false},
  };
  const Result<jinja::Rendered> rendered = parsed->render(variables, std::chrono::local_seconds{});
  if (!rendered) return 0;
  size_t at = 0;
  for (const ByteRange& range : rendered->input_ranges) {
    if (range.begin < at || range.end <= range.begin || range.end > rendered->text.size()) abort();
    at = range.end;
  }
  return 0;
}
