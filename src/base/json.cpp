#include "base/json.h"

#include <fmt/format.h>

#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/file.h"

namespace millrace {
namespace {

// Walks the events of one document and remembers the keys of each open object, since Boost.JSON's
// own value builder silently keeps the last of two equal keys.
class DuplicateKeyFinder {
 public:
  static constexpr size_t max_object_size = size_t(-1);
  static constexpr size_t max_array_size = size_t(-1);
  static constexpr size_t max_key_size = size_t(-1);
  static constexpr size_t max_string_size = size_t(-1);

  using error_code = boost::system::error_code;
  using string_view = json::string_view;

  const std::string& duplicate() const { return duplicate_; }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) {
    keys_.emplace_back();
    return true;
  }
  bool on_object_end(size_t, error_code&) {
    keys_.pop_back();
    return true;
  }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(size_t, error_code&) { return true; }
  bool on_key_part(string_view part, size_t, error_code&) {
    key_.append(part.data(), part.size());
    return true;
  }
  bool on_key(string_view part, size_t, error_code& ec) {
    key_.append(part.data(), part.size());
    std::string key = std::exchange(key_, {});
    if (keys_.back().insert(key).second) return true;
    duplicate_ = std::move(key);
    ec = make_error_code(boost::system::errc::invalid_argument);
    return false;
  }
  bool on_string_part(string_view, size_t, error_code&) { return true; }
  bool on_string(string_view, size_t, error_code&) { return true; }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_int64(int64_t, string_view, error_code&) { return true; }
  bool on_uint64(uint64_t, string_view, error_code&) { return true; }
  bool on_double(double, string_view, error_code&) { return true; }
  bool on_bool(bool, error_code&) { return true; }
  bool on_null(error_code&) { return true; }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  std::vector<std::unordered_set<std::string>> keys_;
  std::string key_;
  std::string duplicate_;
};

// Builds the value, with each double as exact as its text: Boost.JSON 1.81 rounds some of them to
// the neighbour, which a client would see when a number goes out again.
class ValueBuilder {
 public:
  static constexpr size_t max_object_size = json::object::max_size();
  static constexpr size_t max_array_size = json::array::max_size();
  static constexpr size_t max_key_size = json::string::max_size();
  static constexpr size_t max_string_size = json::string::max_size();

  using error_code = boost::system::error_code;
  using string_view = json::string_view;

  json::value release() { return stack_.release(); }

  bool on_document_begin(error_code&) {
    stack_.reset();
    return true;
  }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) { return true; }
  bool on_object_end(size_t size, error_code&) { return stack_.push_object(size), true; }
  bool on_array_begin(error_code&) { return true; }
  bool on_array_end(size_t size, error_code&) { return stack_.push_array(size), true; }
  bool on_key_part(string_view part, size_t, error_code&) { return stack_.push_chars(part), true; }
  bool on_key(string_view part, size_t, error_code&) { return stack_.push_key(part), true; }
  bool on_string_part(string_view part, size_t, error_code&) {
    return stack_.push_chars(part), true;
  }
  bool on_string(string_view part, size_t, error_code&) { return stack_.push_string(part), true; }
  bool on_number_part(string_view part, error_code&) { return number_.append(part), true; }
  bool on_int64(int64_t value, string_view, error_code&) {
    number_.clear();
    return stack_.push_int64(value), true;
  }
  bool on_uint64(uint64_t value, string_view, error_code&) {
    number_.clear();
    return stack_.push_uint64(value), true;
  }
  bool on_double(double value, string_view part, error_code&) {
    number_.append(part);
    // Leaves `value` alone when the text is out of range.
    std::from_chars(number_.data(), number_.data() + number_.size(), value);
    number_.clear();
    return stack_.push_double(value), true;
  }
  bool on_bool(bool value, error_code&) { return stack_.push_bool(value), true; }
  bool on_null(error_code&) { return stack_.push_null(), true; }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  json::value_stack stack_;
  std::string number_;
};

json::parse_options options_for(const JsonLimits& limits) {
  json::parse_options options;
  options.max_depth = limits.depth_max;
  return options;
}

// REQUIRES: `text` is a well-formed document, so that the only possible error is a duplicate.
Result<void> refuse_duplicate_keys(std::string_view text, const JsonLimits& limits) {
  json::basic_parser<DuplicateKeyFinder> parser(options_for(limits));
  boost::system::error_code ec;
  parser.write_some(false, text.data(), text.size(), ec);
  const std::string& key = parser.handler().duplicate();
  if (!ec) return {};
  return invalid_argument(
      fmt::format("the key \"{}\" stands twice in one object", key.substr(0, 200))
  );
}

}  // namespace

Result<json::value> parse_json(std::string_view text, const JsonLimits& limits) {
  json::basic_parser<ValueBuilder> parser(options_for(limits));
  boost::system::error_code ec;
  const size_t parsed = parser.write_some(false, text.data(), text.size(), ec);
  if (ec) {
    return invalid_argument(fmt::format("not valid JSON at byte {}: {}", parsed, ec.message()));
  }
  for (const char c : text.substr(parsed)) {
    if (c != ' ' && c != '\t' && c != '\n' && c != '\r') {
      return invalid_argument(fmt::format("not valid JSON at byte {}: extra text", parsed));
    }
  }
  if (!limits.allow_duplicate_keys) {
    Result<void> unique = refuse_duplicate_keys(text, limits);
    if (!unique) return unique.error();
  }
  return parser.handler().release();
}

namespace {

void append_json_text(std::string& text, const json::value& value);

void append_number(std::string& text, double number) {
  if (!std::isfinite(number)) {
    text += "null";
  } else {
    fmt::format_to(std::back_inserter(text), "{}", number);
  }
}

void append_array(std::string& text, const json::array& array) {
  text += '[';
  for (const json::value& element : array) {
    if (text.back() != '[') text += ", ";
    append_json_text(text, element);
  }
  text += ']';
}

void append_object(std::string& text, const json::object& object) {
  text += '{';
  for (const json::key_value_pair& entry : object) {
    if (text.back() != '{') text += ", ";
    text += json::serialize(json::value(entry.key()));
    text += ": ";
    append_json_text(text, entry.value());
  }
  text += '}';
}

void append_json_text(std::string& text, const json::value& value) {
  if (const double* number = value.if_double()) return append_number(text, *number);
  if (const json::array* array = value.if_array()) return append_array(text, *array);
  if (const json::object* object = value.if_object()) return append_object(text, *object);
  text += json::serialize(value);
}

}  // namespace

std::string to_json_text(const json::value& value) {
  std::string text;
  append_json_text(text, value);
  return text;
}

double to_json_number(float value) {
  if (!std::isfinite(value)) return static_cast<double>(value);
  const std::string digits = fmt::format("{}", value);
  double number = 0.0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

Result<json::value> read_json_file(const std::string& path, const JsonLimits& limits) {
  Result<std::string> text = read_file(path);
  if (!text) return text.error();
  Result<json::value> value = parse_json(*text, limits);
  if (!value) return invalid_argument(path + ": " + value.error().message, path);
  return value;
}

}  // namespace millrace
