#include "server/api_keys.h"

#include <algorithm>
#include <cctype>
#include <cstdint>

#include "http/characters.h"

namespace millrace {
namespace {

constexpr std::string_view kScheme = "bearer ";

bool has_scheme(std::string_view authorization) {
  return authorization.size() > kScheme.size() &&
         std::equal(kScheme.begin(), kScheme.end(), authorization.begin(), [](char a, char b) {
           return a == std::tolower(static_cast<unsigned char>(b));
         });
}

// Reads all of `shown`, whatever it finds: the time tells nothing of `key`.
bool equal_in_constant_time(std::string_view shown, std::string_view key) {
  uint32_t difference = shown.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < shown.size(); ++i) {
    const char expected = key[i % key.size()];
    difference |= static_cast<uint32_t>(static_cast<unsigned char>(shown[i] ^ expected));
  }
  return difference == 0;
}

}  // namespace

Result<void> check_api_key(std::string_view key) {
  if (key.empty()) return invalid_argument("must not be empty");
  if (!std::ranges::all_of(key, http::is_field_char)) {
    return invalid_argument("must not hold line breaks or other control characters");
  }
  if (http::trim(key).size() != key.size()) {
    return invalid_argument("must not begin or end with a space");
  }
  return {};
}

bool ApiKeys::admit(std::string_view authorization) const {
  return keys_.empty() || find(authorization).has_value();
}

std::string ApiKeys::tenant_of(std::string_view authorization) const {
  const std::optional<size_t> index = find(authorization);
  return index ? "key-" + std::to_string(*index) : "";
}

// Compares with all keys, whichever it is.
std::optional<size_t> ApiKeys::find(std::string_view authorization) const {
  if (!has_scheme(authorization)) return std::nullopt;
  const std::string_view shown = authorization.substr(kScheme.size());
  std::optional<size_t> found;
  for (size_t i = 0; i < keys_.size(); ++i) {
    const bool is_equal = equal_in_constant_time(shown, keys_[i]);
    if (is_equal) found = i;
  }
  return found;
}

}  // namespace millrace
