#include "http/target.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "http/characters.h"

namespace millrace::http {
namespace {

bool is_path_char(char c) {
  return is_name_char(c) || c == ':' || c == '@' || c == '/';
}

// Decodes %XX; nullopt for a bad escape or a byte that a path may not hold.
std::optional<std::string> percent_decode(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      if (!is_path_char(text[i])) return std::nullopt;
      decoded.push_back(text[i]);
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_value(text[i + 1]);
    const int low = hex_value(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  return decoded;
}

// The length of the well-formed UTF-8 sequence at the start of `text` (Unicode 15, table 3-7), or
// 0.
size_t utf8_sequence_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size) return 0;
  const unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  return size;
}

bool is_clean_text(std::string_view text) {
  while (!text.empty()) {
    const size_t size = utf8_sequence_size(text);
    if (size == 0) return false;
    if (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7f || text[0] == '\\') {
      return false;
    }
    text.remove_prefix(size);
  }
  return true;
}

bool has_dot_segments(std::string_view path) {
  while (!path.empty()) {
    path.remove_prefix(1);
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view segment = path.substr(0, end);
    if (segment == "." || segment == "..") return true;
    path.remove_prefix(end);
  }
  return false;
}

// "http://host/path?query" -> "/path?query"; nullopt when the authority is not a valid host.
std::optional<std::string> strip_authority(std::string_view target) {
  target.remove_prefix(target.find("://") + 3);
  const size_t end = std::min(target.find_first_of("/?"), target.size());
  const std::string_view authority = target.substr(0, end);
  if (authority.empty() || !is_valid_host(authority)) return std::nullopt;
  std::string rest(target.substr(end));
  if (!rest.starts_with('/')) rest.insert(rest.begin(), '/');
  return rest;
}

bool is_absolute_form(std::string_view target) {
  return equals_ignoring_case(target.substr(0, 7), "http://") ||
         equals_ignoring_case(target.substr(0, 8), "https://");
}

std::variant<Target, Refusal> parse_origin_form(std::string_view target) {
  if (!target.starts_with('/')) return refuse_malformed("the request target must start with '/'");
  const size_t mark = std::min(target.find('?'), target.size());
  const std::string_view encoded = target.substr(0, mark);
  std::optional<std::string> path = percent_decode(encoded);
  if (!path || !is_clean_text(*path)) {
    return refuse_malformed(
        "the path holds a bad percent escape, a control character or a byte that is not UTF-8"
    );
  }
  // An escaped slash may make empty ones: a model's name can be a path.
  if (encoded.find("//") != std::string_view::npos || has_dot_segments(*path)) {
    return refuse(404, "not_found", "paths with empty, '.' or '..' segments do not exist here");
  }
  const std::string_view query = mark < target.size() ? target.substr(mark + 1) : "";
  return Target{.path = std::move(*path), .query = std::string(query)};
}

bool is_port(std::string_view text) {
  return text.size() <= 5 && std::all_of(text.begin(), text.end(), is_digit);
}

}  // namespace

std::variant<Target, Refusal> parse_target(std::string_view method, std::string_view target) {
  if (target.empty() || !std::all_of(target.begin(), target.end(), is_visible)) {
    return refuse_malformed("the request target holds a byte that a URI may not hold");
  }
  if (method == "CONNECT" || (method == "OPTIONS" && target == "*")) return Target{.path = "*"};
  if (target.find('#') != std::string_view::npos) {
    return refuse_malformed("the request target must not hold a fragment");
  }
  if (!is_absolute_form(target)) return parse_origin_form(target);
  const std::optional<std::string> rest = strip_authority(target);
  if (!rest) return refuse_malformed("the authority in the request target is not a valid host");
  return parse_origin_form(*rest);
}

bool is_valid_host(std::string_view host) {
  size_t end = 0;
  if (host.starts_with('[')) {
    end = host.find(']');
    if (end == std::string_view::npos || end < 3) return false;
    const std::string_view address = host.substr(1, end - 1);
    if (!std::all_of(address.begin(), address.end(), [](char c) {
          return hex_value(c) >= 0 || c == ':' || c == '.';
        })) {
      return false;
    }
    ++end;
  } else {
    end = std::min(host.find(':'), host.size());
    const std::string_view name = host.substr(0, end);
    if (!std::all_of(name.begin(), name.end(), [](char c) {
          return is_name_char(c) || c == '%';
        })) {
      return false;
    }
  }
  if (end == host.size()) return true;
  return host[end] == ':' && is_port(host.substr(end + 1));
}

}  // namespace millrace::http
