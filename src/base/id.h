// Integers that must not be swapped for one another.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

namespace millrace {

template <class Tag, class Value = int32_t>
struct Id {
  Value value = 0;
  friend auto operator<=>(Id, Id) = default;
};

using BlockId = Id<struct BlockTag>;            // one KV block, 0 .. num_blocks - 1
using HiddenSlotId = Id<struct HiddenSlotTag>;  // one saved hidden state, 0 .. num_hidden_slots - 1
using RequestId = Id<struct RequestTag, uint64_t>;  // one API call, never reused in a process

using TenantId = Id<struct TenantTag>;  // whose requests they are, 0 for nobody's

// A vocabulary entry. A plain integer: tensors and files are full of them.
using TokenId = int32_t;

}  // namespace millrace

template <class Tag, class Value>
struct std::hash<millrace::Id<Tag, Value>> {
  size_t operator()(millrace::Id<Tag, Value> id) const noexcept {
    return std::hash<Value>{}(id.value);
  }
};
