// Finds stop strings in a stream of text and holds back what may become one. Not thread-safe; owned
// and called by whoever streams one answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// Matching ends at the first byte at which any stop string ends; of several that end there the
// longest counts. The released text ends before that stop string, or behind it where
// `include_stop`; what came after it is dropped. (Aho, Corasick 1975.)
class StopStringMatcher {
 public:
  // Empty stop strings are passed over. Takes memory and time linear in their bytes; how many and
  // how long they may be is for the caller to bound.
  StopStringMatcher(std::span<const std::string> stops, bool include_stop);

  // The text that `piece` releases: at most max(stop length) - 1 bytes stay held back. Empty once
  // a stop string has matched. Linear in `piece`, amortised.
  std::string push(std::string_view piece);

  // What is held back when the text ends without a stop string; empty where one has matched.
  std::string finish();

  // The index, in the list given, of the stop string that matched.
  std::optional<size_t> matched() const { return matched_; }

 private:
  struct Node {
    uint8_t byte = 0;
    uint32_t first_child = 0;  // 0: none, since the root is nobody's child
    uint32_t next_sibling = 0;
    uint32_t fail = 0;           // the node of the longest proper suffix that is in the trie
    uint32_t depth = 0;          // how many of the latest bytes may begin a stop string
    std::optional<size_t> stop;  // the longest stop string that ends here
  };

  uint32_t child(uint32_t node, uint8_t byte) const;
  void add(std::string_view stop, size_t index);
  void link_suffixes();
  uint32_t next_state(uint32_t node, uint8_t byte) const;

  std::vector<Node> nodes_;  // the root is the first
  std::vector<size_t> stop_sizes_;
  bool include_stop_;
  uint32_t state_ = 0;
  std::string held_;  // the last nodes_[state_].depth bytes of the text
  std::optional<size_t> matched_;
};

}  // namespace millrace
