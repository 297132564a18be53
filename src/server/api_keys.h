// Which keys a client may show, and whose requests they make. Immutable, thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace {

// Whether clients can show this key: an HTTP field carries it, and loses spaces at its ends. The
// error does not tell the key.
Result<void> check_api_key(std::string_view key);

class ApiKeys {
 public:
  // No keys: everyone is let in.
  explicit ApiKeys(std::vector<std::string> keys) : keys_(std::move(keys)) {}

  bool is_open() const { return keys_.empty(); }

  // Whether the value of an Authorization field ("Bearer KEY") shows one of the keys. Takes as long
  // for a key that is nearly right as for any other of its length.
  bool admit(std::string_view authorization) const;

  // The tenant whose key it shows: a name that tells nothing of the key. Empty: nobody's, where no
  // keys are asked for.
  std::string tenant_of(std::string_view authorization) const;

 private:
  std::optional<size_t> find(std::string_view authorization) const;

  std::vector<std::string> keys_;
};

}  // namespace millrace
