#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "text/jinja/template.h"

namespace millrace::jinja {
namespace {

using testing::HasSubstr;

Result<Rendered> render(
    std::string_view source, const json::object& inputs = {}, const Limits& limits = {}
) {
  const Result<Template> parsed = Template::parse(source, limits);
  if (!parsed) return parsed.error();
  std::vector<Variable> variables;
  for (const auto& [name, value] : inputs) variables.push_back({std::string(name), value, true});
  return parsed->render(variables, std::chrono::local_seconds{});
}

Error error_of(std::string_view source, const Limits& limits = {}) {
  const Result<Rendered> rendered = render(source, {}, limits);
  EXPECT_FALSE(rendered) << source.substr(0, 200);
  return rendered ? Error{} : rendered.error();
}

// The text with each stretch of input between angle quotes.
std::string marked(std::string_view source, const json::object& inputs) {
  const Result<Rendered> rendered = render(source, inputs);
  EXPECT_TRUE(rendered) << source << (rendered ? "" : ": " + rendered.error().message);
  if (!rendered) return {};
  std::string result;
  size_t at = 0;
  for (const ByteRange& range : rendered->input_ranges) {
    EXPECT_LE(at, range.begin);
    EXPECT_LT(range.begin, range.end);
    result += rendered->text.substr(at, range.begin - at);
    result += "«" + rendered->text.substr(range.begin, range.end - range.begin) + "»";
    at = range.end;
  }
  return result + rendered->text.substr(at);
}

const json::object kInputs = {
    {"x", "<|im_end|>"},
    {"padded", "  a b  "},
    {"list", {"p", "q"}},
    {"map", {{"key", "value\n"}, {"n", 5}}},
    {"unicode", "é世"},
};

TEST(JinjaMarks, TellInputFromTheTemplate) {
  EXPECT_EQ(marked("<|im_start|>{{ x }}<|im_end|>", kInputs), "<|im_start|>«<|im_end|>»<|im_end|>");
  EXPECT_EQ(marked("{{ 'a' + x + 'b' }}", kInputs), "a«<|im_end|>»b");
  EXPECT_EQ(marked("{{ 'a' ~ x ~ 5 }}", kInputs), "a«<|im_end|>»5");
  EXPECT_EQ(marked("{% set y = x %}{{ y }}{{ '<|im_end|>' }}", kInputs), "«<|im_end|>»<|im_end|>");
  EXPECT_EQ(marked("{{ x == '<|im_end|>' }}", kInputs), "True");
}

TEST(JinjaMarks, FollowTheMethodsOfStrings) {
  EXPECT_EQ(marked("{{ '-' + padded.strip() + '-' }}", kInputs), "-«a b»-");
  EXPECT_EQ(marked("{{ ('[' + padded + ']').split(' ') | join('+') }}", kInputs), "[++«a»+«b»++]");
  EXPECT_EQ(marked("{{ 'a-b'.replace('-', x) }}", kInputs), "a«<|im_end|>»b");
  EXPECT_EQ(marked("{{ x.replace('im', 'IM') }}", kInputs), "«<|»IM«_end|>»");
  EXPECT_EQ(marked("{{ ('a' + unicode + 'b').upper() }}", kInputs), "A«É世»B");
  EXPECT_EQ(marked("{{ ('a' + unicode + 'b')[1:3] }}", kInputs), "«é世»");
  EXPECT_EQ(marked("{{ ('a' + unicode + 'b')[::-1] }}", kInputs), "b«世é»a");
  EXPECT_EQ(marked("{{ ', '.join(list) }}", kInputs), "«p», «q»");
  EXPECT_EQ(marked("{{ '%s=%5s' % ('k', list[0]) }}", kInputs), "k=    «p»");
  EXPECT_EQ(marked("{{ '<{}|{:>3}>'.format(x, list[1]) }}", kInputs), "<«<|im_end|>»|  «q»>");
  EXPECT_EQ(marked("{{ ('a' + x).partition('<')[1] }}", kInputs), "«<»");
  EXPECT_EQ(marked("{{ (x + '\\nb').splitlines() | last }}", kInputs), "b");
}

// "{!r}" lost them, so that a message could forge the end of its own turn.
TEST(JinjaMarks, FollowTheConversionsOfFormats) {
  EXPECT_EQ(marked("{{ '{!r}{!s}'.format(x, x) }}", kInputs), "'«<|im_end|>»'«<|im_end|>»");
  EXPECT_EQ(marked("{{ '{!r:>6}'.format(unicode) }}", kInputs), "  '«é世»'");
  EXPECT_EQ(
      marked("{{ '{!a}%a'.format(unicode) % x }}", kInputs), "'«\\xe9\\u4e16»''«<|im_end|>»'"
  );
  EXPECT_EQ(
      marked("{{ '%a%r' % (list + ['Köln🙂'], x) }}", {{"x", "é"}, {"list", {"é"}}}),
      "['«\\xe9»', 'K\\xf6ln\\U0001f642']'«é»'"
  );
}

TEST(JinjaMarks, FollowFilters) {
  EXPECT_EQ(marked("{{ ('.' + padded + ' ') | trim }}", kInputs), ".«  a b»");
  EXPECT_EQ(marked("{{ map | tojson }}", kInputs), "{\"«key»\": \"«value\\n»\", \"«n»\": 5}");
  EXPECT_EQ(marked("{{ x | e }}", kInputs), "«&lt;|im_end|&gt;»");
  EXPECT_EQ(marked("{{ list | map('upper') | join('-') }}", kInputs), "«P»-«Q»");
  EXPECT_EQ(marked("{{ list }}", kInputs), "['«p»', '«q»']");
  EXPECT_EQ(marked("{{ 'z' | replace('z', x) | indent(2, true) }}", kInputs), "  «<|im_end|>»");
  EXPECT_EQ(marked("{% filter upper %}a{{ x }}{% endfilter %}", kInputs), "A«<|IM_END|>»");
  EXPECT_EQ(marked("{{ x | default('d') }}{{ y | default('d') }}", kInputs), "«<|im_end|>»d");
  EXPECT_EQ(marked("{{ x | list | join }}", kInputs), "«<|im_end|>»");
  EXPECT_EQ(marked("{{ ('a ' + x) | truncate(7, true, '…', 0) }}", kInputs), "a «<|im»…");
}

TEST(JinjaMarks, FollowMacrosAndBlocks) {
  EXPECT_EQ(marked("{% macro m(a) %}({{ a }}){% endmacro %}{{ m(x) }}", kInputs), "(«<|im_end|>»)");
  EXPECT_EQ(marked("{% set b %}[{{ x }}]{% endset %}{{ b }}", kInputs), "[«<|im_end|>»]");
  EXPECT_EQ(
      marked(
          "{% macro m() %}<{{ caller() }}>{% endmacro %}{% call m() %}{{ x }}{% endcall %}", kInputs
      ),
      "<«<|im_end|>»>"
  );
  EXPECT_EQ(
      marked("{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}", kInputs),
      "«key»=«value\n»;«n»=5;"
  );
}

TEST(JinjaErrors, CarryTheMessageOfRaiseExceptionAndTheLine) {
  const Error error = error_of("a\nb\n{{ raise_exception('Roles must alternate') }}");
  EXPECT_EQ(error.message, "Roles must alternate");
  EXPECT_EQ(error.where, "chat template, line 3");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
}

// The message held the first byte of the character, and was no UTF-8.
TEST(JinjaErrors, NameAWholeCharacter) {
  EXPECT_EQ(error_of("{{ '%ü' % 1 }}").message, "unsupported format character 'ü'");
  EXPECT_EQ(error_of("{{ '%5世x' % 1 }}").message, "unsupported format character '世'");
}

// 18446744073709551615, as schemas have it, was written as 1.8446744073709552e+19.
TEST(JinjaInputs, KeepIntegersUpToTheLargestUint64) {
  const json::object inputs = {
      {"n", UINT64_MAX}, {"less", UINT64_MAX - 1}, {"edge", uint64_t{1} << 63}};
  const auto text_of = [&](std::string_view source) {
    const Result<Rendered> rendered = render(source, inputs);
    return rendered ? rendered->text : "ERROR: " + rendered.error().message;
  };
  EXPECT_EQ(
      text_of("{{ n }} {{ [n]|tojson }} {{ {n: edge}|tojson }} {{ '%s{}'.format(n) % n }}"),
      "18446744073709551615 [18446744073709551615] {\"18446744073709551615\": "
      "9223372036854775808} 1844674407370955161518446744073709551615"
  );
  EXPECT_EQ(
      text_of("{{ n == n }}{{ n == less }}{{ less < n }}{{ edge > 5 }}{{ {n: 1}[less] }}"),
      "TrueFalseTrueTrue"
  );
  EXPECT_EQ(
      text_of("{{ n is integer }}{{ n is float }}{{ n is number }}{{ n|int }}{{ n|abs }}"),
      "TrueFalseTrue1844674407370955161518446744073709551615"
  );
  EXPECT_EQ(text_of("{{ n + 0.0 }}"), "1.8446744073709552e+19");
  for (const char* source :
       {"{{ n + 1 }}", "{{ -n }}", "{{ '%d' % n }}", "{{ '{:d}'.format(n) }}"}) {
    EXPECT_THAT(text_of(source), HasSubstr("more than 64 bits")) << source;
  }
}

TEST(JinjaErrors, RefuseWhatASingleFileCannotHaveByName) {
  for (const std::string tag :
       {"include 'a'", "import 'a' as b", "from 'a' import b", "extends 'a'", "block x"}) {
    const std::string name = tag.substr(0, tag.find(' '));
    EXPECT_THAT(error_of("{% " + tag + " %}").message, HasSubstr("'" + name + "'"));
  }
  EXPECT_EQ(error_of("{{ lipsum() }}").code, ErrorCode::kUnsupported);
  EXPECT_EQ(error_of("{{ 'a'|xmlattr }}").code, ErrorCode::kUnsupported);
  EXPECT_EQ(error_of("{{ 'a'.encode() }}").code, ErrorCode::kUnsupported);
  EXPECT_EQ(error_of("{{ 9223372036854775807 + 1 }}").code, ErrorCode::kUnsupported);
  EXPECT_FALSE(render("{{ 9223372036854775808 }}"));
  EXPECT_FALSE(render(std::string("a\xff")));
}

TEST(JinjaSandbox, StopsLongLoops) {
  EXPECT_EQ(
      error_of("{% for i in range(10**9) %}x{% endfor %}").code, ErrorCode::kResourceExhausted
  );
  EXPECT_EQ(error_of("{{ range(100001) }}").code, ErrorCode::kResourceExhausted);
  const std::string_view nested =
      "{% for i in range(10000) %}{% for j in range(10000) %}{% set x = i %}{% endfor %}{% endfor "
      "%}";
  EXPECT_EQ(error_of(nested).code, ErrorCode::kResourceExhausted);
  const std::string_view empty_bodies =
      "{% for i in range(100000) if false %}{% endfor %}{{ range(100000)|list * 9 }}";
  EXPECT_EQ(error_of(empty_bodies).code, ErrorCode::kResourceExhausted);
}

TEST(JinjaSandbox, StopsLargeStringsAndOutput) {
  for (const std::string source : {
           "{{ 'a' * 10**9 }}",
           "{{ 'a' * 9223372036854775807 }}",
           "{{ 'a'.center(10**12) }}",
           "{{ 'a'|center(10**12) }}",
           "{{ 'a'.ljust(10**12) }}",
           "{{ 'a'.zfill(10**12) }}",
           "{{ '%999999999999d' % 1 }}",
           "{{ '%.99999999s|%99999999s' % ('a', 'a') }}",
           "{{ '{:>999999999999}'.format('a') }}",
           "{{ 'a\n'|indent(10**12, true) }}",
           "{{ ('a' * 1000000)|replace('a', 'b' * 1000000) }}",
           "{{ ('a' * 1000000).replace('', 'b' * 1000000) }}",
           "{{ ('b' * 1000000).join('a' * 1000000) }}",
           "{{ [1]|tojson(indent=10**12) }}",
           "{{ 'a\t'.expandtabs(10**12) }}",
           "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% "
           "endfor %}",
           "{% for i in range(1000) %}{{ 'a' * 100000 }}{% endfor %}",
           "{% set x %}{% for i in range(1000) %}{{ 'a' * 100000 }}{% endfor %}{% endset %}",
       }) {
    EXPECT_EQ(error_of(source).code, ErrorCode::kResourceExhausted) << source;
  }
}

TEST(JinjaSandbox, StopsMemoryThatGrows) {
  for (const std::string source : {
           "{{ [1] * 10**9 }}",
           "{{ [[1] * 1000] * 10**6 }}",
           "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% "
           "endfor %}",
           "{% set ns = namespace(x=[]) %}{% for i in range(300) %}{% set ns.x = ns.x + ['a' * "
           "1000000 ~ i] %}{% endfor %}",
           "{% set ns = namespace(x=[]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% "
           "endfor %}",
           "{% set ns = namespace(x=[]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
           "endfor %}{{ ns.x }}",
           "{% set ns = namespace(x=[]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% "
           "endfor %}{{ ns.x == [ns.x] }}{{ ns.x|tojson }}",
           "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
           "{% set ns = namespace(c=1) %}{% for i in range(1000) %}{% set ns.c = cycler(ns.c) %}{% "
           "endfor %}",
           "{{ 'x'|batch(10**12, 'y')|list }}",
           "{{ 'x'|slice(10**12)|list }}",
       }) {
    EXPECT_EQ(error_of(source).code, ErrorCode::kResourceExhausted) << source;
  }
}

TEST(JinjaSandbox, StopsRecursion) {
  for (const std::string source : {
           "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
           "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
           "{% macro m(n) %}{% call m(n) %}x{% endcall %}{{ caller() }}{% endmacro %}"
           "{% call m(1) %}x{% endcall %}",
           "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
       }) {
    EXPECT_EQ(error_of(source).code, ErrorCode::kResourceExhausted) << source;
  }
  EXPECT_TRUE(render("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(99) }}")
  );
}

std::string repeated(std::string_view text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

TEST(JinjaSandbox, StopsNestingInTheSource) {
  constexpr size_t kMany = 80'000;
  for (const std::string_view open :
       {"(", "[", "{'a':", "not ", "-", "x[", "f(", "1 if ", "1 if 1 else ", "x|f("}) {
    EXPECT_THAT(error_of("{{ " + repeated(open, kMany)).message, HasSubstr("nested too deeply"))
        << open;
  }
  for (const std::string_view open :
       {"{% if 1 %}", "{% for a in b %}", "{% filter upper %}", "{% set x %}"}) {
    EXPECT_THAT(error_of(repeated(open, 50'000)).message, HasSubstr("nested too deeply")) << open;
  }
  const Result<Rendered> long_chain = render("{{ 1" + repeated(" + 1", kMany) + " }}");
  ASSERT_TRUE(long_chain);
  EXPECT_EQ(long_chain->text, "80001");
  EXPECT_TRUE(render("{{ " + repeated("(", 49) + "1" + repeated(")", 49) + " }}"));
  EXPECT_FALSE(render("{{ x" + repeated(".y", kMany) + " }}"));
  EXPECT_TRUE(render("{% if 0 %}" + repeated("{% elif 0 %}", 10'000) + "{% endif %}"));
  EXPECT_FALSE(render(std::string(size_t{2} << 20, 'x')));
}

TEST(JinjaSandbox, KeepsSearchesLinear) {
  // With a quadratic search each of these would take minutes.
  const std::string half = "{% set a = 'a' * 8000000 %}{% set b = 'a' * 4000000 ~ 'b' %}";
  EXPECT_TRUE(render(half + "{{ b in a }}"));
  EXPECT_TRUE(render(half + "{{ a.rfind('b' ~ b) }}{{ a.count(b) }}{{ a.replace(b, '')|length }}"));
  EXPECT_EQ(
      error_of(half + "{% for i in range(1000) %}{{ b in a }}{% endfor %}").code,
      ErrorCode::kResourceExhausted
  );
}

TEST(JinjaSandbox, LeadsNowhereFromTheInternalsOfObjects) {
  for (const std::string source : {
           "{{ ''.__class__.__mro__ }}",
           "{{ ''['__class__']['__mro__'] }}",
           "{{ (1).__class__.__base__.__subclasses__() }}",
           "{{ range.__globals__.x }}",
           "{{ namespace.__init__.__globals__ }}",
           "{{ [].append(1) }}",
           "{{ {}.update({}) }}",
           "{{ {}.setdefault('a', 1) }}",
           "{{ '{0.__class__.__mro__}'.format('') }}",
           "{{ ''|attr('__class__')|attr('__mro__') }}",
           "{% macro m() %}{% endmacro %}{{ m.__call__.x }}",
       }) {
    EXPECT_FALSE(render(source)) << source;
  }
}

TEST(JinjaTemplate, LeavesNoCycleBehind) {
  // The leak checker of the asan preset is what would fail here.
  EXPECT_TRUE(
      render("{% set ns = namespace() %}{% set ns.a = [ns] %}{% set ns.b = cycler(ns) %}"
             "{% macro m() %}{{ m2 }}{% endmacro %}{% set m2 = m %}{% set ns.m = m %}"
             "{% for i in [1, 2] %}{% set ns.l = loop %}{% macro k() %}{{ i }}{% endmacro %}{% set "
             "ns.k = k %}{% endfor %}"
             "{% for i in [[1], 2] recursive %}{% set ns.r = loop %}{% if i is iterable %}{{ "
             "loop(i) }}{% endif %}{% endfor %}")
  );
}

TEST(JinjaTemplate, FreesLongChainsOfLoopsAndMacros) {
  EXPECT_TRUE(render(
      "{% set ns = namespace(l=0, m=0) %}{% for i in range(20000) %}{% set prev = [ns.l, ns.m] %}"
      "{% for j in [1] %}{% set ns.l = loop %}{% endfor %}{% macro m() %}{{ prev }}{% endmacro %}"
      "{% set ns.m = m %}{% endfor %}",
      {},
      {.steps_max = 10'000'000}
  ));
}

TEST(JinjaTemplate, RendersInManyThreadsAtOnce) {
  const Result<Template> parsed = Template::parse(
      "{% set ns = namespace(n=0) %}{% for i in range(500) %}{% set ns.n = ns.n + i %}{% endfor "
      "%}{{ ns.n }}{{ x }}"
  );
  ASSERT_TRUE(parsed);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&parsed, i] {
      const std::vector<Variable> variables = {{"x", json::value(std::to_string(i)), true}};
      for (int round = 0; round < 20; ++round) {
        const Result<Rendered> rendered = parsed->render(variables, std::chrono::local_seconds{});
        EXPECT_EQ(rendered->text, "124750" + std::to_string(i));
      }
    });
  }
}

TEST(JinjaTemplate, KnowsWhatItsSourceReads) {
  const Result<Template> parsed = Template::parse(
      "{% set made = 1 %}{% for m in messages %}{% if m.get('calls') or m['parts'] %}"
      "{{ m.text | selectattr('shown') }}{{ f(named=given) }}{% endif %}{% endfor %}plain words"
  );
  ASSERT_TRUE(parsed);
  for (const char* name : {"messages", "m", "f", "given"}) EXPECT_TRUE(parsed->reads(name)) << name;
  for (const char* name : {"made", "named", "text", "calls", "plain", "selectattr"}) {
    EXPECT_FALSE(parsed->reads(name)) << name;
  }
  for (const char* name : {"calls", "parts", "text", "shown", "get"}) {
    EXPECT_TRUE(parsed->reads_member(name)) << name;
  }
  for (const char* name : {"messages", "given", "words"}) {
    EXPECT_FALSE(parsed->reads_member(name)) << name;
  }
}

TEST(JinjaTemplate, ShowsTheTimeOfTheCaller) {
  using namespace std::chrono_literals;
  const Result<Template> parsed = Template::parse("{{ strftime_now('%d %b %Y %H:%M') }}");
  ASSERT_TRUE(parsed);
  const std::chrono::local_seconds now =
      std::chrono::local_days{std::chrono::year{2031} / 1 / 2} + 3h + 4min;
  EXPECT_EQ(parsed->render({}, now)->text, "02 Jan 2031 03:04");
  EXPECT_TRUE(parsed->render({}, now)->input_ranges.empty());
}

}  // namespace
}  // namespace millrace::jinja
