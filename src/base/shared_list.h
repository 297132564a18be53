// A list that copies share, because it does not change: of a request's long lists thousands of
// sequences may have one each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace millrace {

template <class T>
class SharedList {
 public:
  SharedList() = default;
  SharedList(std::vector<T> items)
      : items_(items.empty() ? nullptr : std::make_shared<const std::vector<T>>(std::move(items))) {
  }
  SharedList(std::initializer_list<T> items) : SharedList(std::vector<T>(items)) {}

  operator std::span<const T>() const {
    return items_ == nullptr ? std::span<const T>() : std::span<const T>(*items_);
  }
  std::span<const T> items() const { return *this; }
  const T* begin() const { return items().data(); }
  const T* end() const { return items().data() + size(); }
  size_t size() const { return items().size(); }
  bool empty() const { return items_ == nullptr; }
  const T& operator[](size_t index) const { return items()[index]; }

  friend bool operator==(const SharedList& a, const SharedList& b) {
    return a.items_ == b.items_ || std::ranges::equal(a.items(), b.items());
  }

 private:
  std::shared_ptr<const std::vector<T>> items_;  // null: no items
};

}  // namespace millrace
