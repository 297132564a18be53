// What is due when, the earliest first. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/clock.h"

namespace millrace {

// `turn` tells the users of one slot apart, so that an entry whose user is gone may stay behind
// until it comes up.
struct Due {
  TimePoint when;
  uint32_t slot = 0;
  uint32_t turn = 0;
};

class DueHeap {
 public:
  bool is_empty() const { return heap_.empty(); }
  size_t size() const { return heap_.size(); }

  void push(const Due& due) {
    heap_.push_back(due);
    std::push_heap(heap_.begin(), heap_.end(), is_later);
  }

  // REQUIRES: not empty.
  const Due& first() const {
    CHECK(!heap_.empty(), "nothing is due");
    return heap_.front();
  }
  void pop() {
    CHECK(!heap_.empty(), "nothing is due");
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    heap_.pop_back();
  }

  // Linear in the size.
  template <class Predicate>
  void erase_if(Predicate predicate) {
    std::erase_if(heap_, predicate);
    std::make_heap(heap_.begin(), heap_.end(), is_later);
  }

 private:
  static bool is_later(const Due& a, const Due& b) { return a.when > b.when; }

  std::vector<Due> heap_;
};

}  // namespace millrace
