#include "text/jinja/template.h"

#include <algorithm>

#include "text/jinja/parser.h"
#include "text/jinja/run.h"

namespace millrace::jinja {
namespace {

constexpr int kJsonDepthMax = 150;

bool is_own(const OwnWords& own, std::string_view member, const json::value& value) {
  if (member != own.member || !value.is_string()) return false;
  return std::ranges::find(own.words, std::string_view(value.get_string())) != own.words.end();
}

// A part of the variable, `depth` levels inside.
Value from_json(Run& run, const json::value& value, const Variable& variable, int depth) {
  if (depth > kJsonDepthMax)
    return run.fail_limit("an input of the chat template is nested too deeply");
  if (run.failed()) return {};
  switch (value.kind()) {
    case json::kind::null:
      return None{};
    case json::kind::bool_:
      return value.get_bool();
    case json::kind::int64:
      return value.get_int64();
    case json::kind::uint64:
      return Value(value.get_uint64());
    case json::kind::double_:
      return value.get_double();
    case json::kind::string:
      return run.str(Text(std::string(value.get_string()), variable.is_input));
    case json::kind::array: {
      std::vector<Value> items;
      items.reserve(value.get_array().size());
      for (const json::value& item : value.get_array()) {
        items.push_back(from_json(run, item, variable, depth + 1));
      }
      return run.sequence(std::move(items));
    }
    case json::kind::object: {
      Dict dict;
      dict.entries.reserve(value.get_object().size());
      for (const auto& [key, item] : value.get_object()) {
        const bool is_own_word = depth == 1 && is_own(variable.own_words, key, item);
        dict.set(
            run.str(Text(std::string(key), variable.is_input)),
            is_own_word ? run.str(item.get_string()) : from_json(run, item, variable, depth + 1)
        );
        if (run.failed()) return {};
      }
      return run.dict(std::move(dict));
    }
  }
  return {};
}

}  // namespace

Result<Template> Template::parse(std::string_view source, const Limits& limits) {
  Result<Program> program = parse_program(source, limits);
  if (!program) return program.error();
  return Template(std::make_shared<const Program>(std::move(*program)), limits);
}

bool Template::reads(std::string_view name) const {
  return program_->reads.names.contains(name);
}

bool Template::reads_member(std::string_view name) const {
  return program_->reads.members.contains(name);
}

Result<Rendered> Template::render(
    const std::vector<Variable>& variables, std::chrono::local_seconds now
) const {
  Run run(*program_, limits_, now);
  for (const Variable& variable : variables) {
    run.define(variable.name, from_json(run, variable.value, variable, 0));
  }
  if (run.failed()) return run.error();
  Result<Text> text = run.render();
  if (!text) return text.error();
  std::vector<ByteRange> ranges = text->input_ranges();
  return Rendered{std::move(*text).release_bytes(), std::move(ranges)};
}

}  // namespace millrace::jinja
