// The functions that a template can call, and the tables of natives.
#include <fmt/format.h>
#include <locale.h>
#include <time.h>

#include <algorithm>
#include <map>

#include "text/jinja/builtins/bind.h"
#include "text/jinja/builtins/natives.h"
#include "text/jinja/convert.h"
#include "text/jinja/operators.h"

namespace millrace::jinja {
namespace {

constexpr int64_t kRangeBound = int64_t{1} << 60;  // so that no sum of bound and step overflows

Value range_function(Run& run, const Value&, const Arguments& arguments) {
  if (arguments.positional.empty()) return run.fail("range expected at least 1 argument, got 0");
  const Bound bound(run, arguments, "range", {"start", "stop", "step"}, 1);
  Range range;
  const bool has_start = bound.at(1) != nullptr;
  range.start = has_start ? bound.integer(0, 0) : 0;
  range.stop = bound.integer(has_start ? 1 : 0, 0);
  range.step = bound.integer(2, 1);
  if (run.failed()) return {};
  if (range.step == 0) return run.fail("range() arg 3 must not be zero");
  for (const int64_t bound_value : {range.start, range.stop, range.step}) {
    if (bound_value > kRangeBound || bound_value < -kRangeBound) {
      return run.fail_limit("a bound of range() is too large");
    }
  }
  if (range.size() > run.limits().range_max) {
    return run.fail_limit(fmt::format(
        "Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
        run.limits().range_max
    ));
  }
  return std::make_shared<const Range>(range);
}

// dict() and namespace() take a mapping or pairs, and keywords.
Dict dict_of(Run& run, const Arguments& arguments) {
  Dict result;
  if (arguments.positional.size() > 1) run.fail("dict expected at most 1 argument");
  const Value* source = arguments.positional.empty() ? nullptr : &arguments.positional[0];
  if (source != nullptr && source->dict() != nullptr) {
    if (!run.step(source->dict()->entries.size())) return result;
    for (const auto& [key, value] : source->dict()->entries) result.set(key, value);
  } else if (source != nullptr) {
    for (const Value& pair : iterate(run, *source)) {
      std::vector<Value> parts = iterate(run, pair);
      if (!run.failed() && parts.size() != 2) run.fail("dict() needs pairs of a key and a value");
      if (run.failed()) return result;
      if (!is_hashable(parts[0]))
        run.fail(fmt::format("unhashable type: '{}'", type_name(parts[0])));
      result.set(std::move(parts[0]), std::move(parts[1]));
    }
  }
  for (const auto& [name, value] : arguments.keywords) result.set(run.str(name), value);
  return result;
}

Value dict_function(Run& run, const Value&, const Arguments& arguments) {
  Dict result = dict_of(run, arguments);
  return run.failed() ? Value() : run.dict(std::move(result));
}

Value namespace_function(Run& run, const Value&, const Arguments& arguments) {
  Namespace result{dict_of(run, arguments)};
  for (const auto& [name, value] : result.attributes.entries) {
    if (name.text() == nullptr || name.text()->view().substr(0, 1) != "_") continue;
    return run.fail(fmt::format(
        "Chat templates cannot store underscore-prefixed attributes on a namespace, but got "
        "'{}'. Please rename the attribute.",
        name.text()->view()
    ));
  }
  return run.failed() ? Value() : run.object(std::move(result), 0);
}

Value joiner_function(Run& run, const Value&, const Arguments& arguments) {
  const Bound bound(run, arguments, "joiner", {"sep"});
  Value separator = bound.value(0, run.str(", "));
  const int depth = separator.depth() + 1;
  return run.failed() ? Value() : run.object(Joiner{std::move(separator)}, depth);
}

Value cycler_function(Run& run, const Value&, const Arguments& arguments) {
  if (arguments.positional.empty()) return run.fail("at least one item has to be provided");
  int depth = 1;
  for (const Value& item : arguments.positional) depth = std::max(depth, item.depth() + 1);
  return run.object(Cycler{arguments.positional, 0}, depth);
}

Value lipsum_function(Run& run, const Value&, const Arguments&) {
  return run.fail_unsupported("lipsum() is not supported in chat templates");
}

Value raise_exception_function(Run& run, const Value&, const Arguments& arguments) {
  const Bound bound(run, arguments, "raise_exception", {"message"}, 1);
  return run.failed() ? Value() : run.fail(std::string(bound.text(0, "").view()));
}

std::string without_zone_and_fraction(std::string_view format) {
  std::string result;
  for (size_t i = 0; i < format.size(); ++i) {
    const bool is_directive = format[i] == '%' && i + 1 < format.size();
    const char letter = is_directive ? format[i + 1] : '\0';
    if (letter == 'f') result += "000000";
    if (letter != 'f' && letter != 'z' && letter != 'Z') {
      result += format[i];
      if (is_directive) result += letter;
    }
    if (is_directive) ++i;
  }
  return result;
}

// The caller's time in the C locale. A time without a zone shows none, as Python's naive datetime.
Value strftime_now_function(Run& run, const Value&, const Arguments& arguments) {
  const Bound bound(run, arguments, "strftime_now", {"format"}, 1);
  const Text* format = bound.string(0);
  if (run.failed()) return {};
  if (format->size() > 1000) return run.fail_limit("the format of strftime_now() is too long");
  const auto seconds = run.now().time_since_epoch().count();
  const time_t time = static_cast<time_t>(seconds);
  tm parts{};
  gmtime_r(&time, &parts);
  // A byte in front makes an empty result different from a failure.
  std::string pattern = " ";
  pattern += without_zone_and_fraction(format->view());
  std::string out(64 * 1024, '\0');
  const locale_t c_locale = newlocale(LC_ALL_MASK, "C", nullptr);
  const size_t size = strftime_l(out.data(), out.size(), pattern.c_str(), &parts, c_locale);
  freelocale(c_locale);
  if (size == 0) return run.fail_limit("the result of strftime_now() is too long");
  out.resize(size);
  return run.str(Text(out.substr(1)));
}

}  // namespace

Native find_in(const std::vector<NamedNative>& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [name](const NamedNative& row) {
    return row.name == name;
  });
  return found == table.end() ? nullptr : found->native;
}

Native find_global(std::string_view name) {
  static const std::vector<NamedNative> kTable = {
      {"cycler", cycler_function},
      {"dict", dict_function},
      {"joiner", joiner_function},
      {"lipsum", lipsum_function},
      {"namespace", namespace_function},
      {"raise_exception", raise_exception_function},
      {"range", range_function},
      {"strftime_now", strftime_now_function},
  };
  return find_in(kTable, name);
}

Native find_filter(std::string_view name) {
  for (const auto* table : {&text_filters(), &sequence_filters(), &value_filters()}) {
    if (const Native native = find_in(*table, name)) return native;
  }
  return nullptr;
}

Native find_string_method(std::string_view name) {
  const Native method = find_in(string_methods(), name);
  return method != nullptr ? method : find_in(string_predicates(), name);
}

}  // namespace millrace::jinja
