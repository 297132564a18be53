// The time of a chat of four messages, from parsed JSON to text.
#include <benchmark/benchmark.h>

#include "text/chat_template.h"

namespace millrace {
namespace {

// In the style of the templates that models come with: roles, tools, a namespace, slices, tojson.
constexpr const char* kTemplate = R"({%- if tools %}
{{- '<|im_start|>system\n# Tools\n' }}
{%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}{{- '<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(last=messages|length - 1, open=true) %}
{%- for message in messages[::-1] %}
  {%- set index = (messages|length - 1) - loop.index0 %}
  {%- if ns.open and message.role == 'user' and not (message.content.startswith('<t>')) %}
    {%- set ns.open = false %}{%- set ns.last = index %}
  {%- endif %}
{%- endfor %}
{%- for message in messages %}
  {%- if message.role == 'user' or (message.role == 'system' and not loop.first) %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
  {%- elif message.role == 'assistant' %}
    {%- set content = message.content %}
    {%- if '</think>' in content %}
      {%- set content = content.split('</think>')[-1].lstrip('\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\n' + content | trim + '<|im_end|>\n' }}
  {%- else %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
  {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %})";

ChatInput input_of(size_t content_bytes) {
  const std::string content(content_bytes, 'a');
  ChatInput input;
  for (const char* role : {"system", "user", "assistant", "user"}) {
    input.messages.push_back({{"role", role}, {"content", content}});
  }
  return input;
}

void BM_RenderFourMessages(benchmark::State& state) {
  const Result<ChatTemplate> chat_template = ChatTemplate::parse(kTemplate, {});
  const ChatInput input = input_of(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    const Result<RenderedChat> rendered = chat_template->render(input);
    benchmark::DoNotOptimize(rendered->text.data());
  }
  state.SetBytesProcessed(state.iterations() * 4 * state.range(0));
}
BENCHMARK(BM_RenderFourMessages)
    ->Arg(100)
    ->Arg(10'000)
    ->Arg(1'000'000)
    ->Unit(benchmark::kMicrosecond);

void BM_Parse(benchmark::State& state) {
  for (auto _ : state) {
    const Result<ChatTemplate> chat_template = ChatTemplate::parse(kTemplate, {});
    benchmark::DoNotOptimize(chat_template.ok());
  }
}
BENCHMARK(BM_Parse)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace millrace
