// Finds stop strings in a stream of text and holds back what may become one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

// Stop strings, made ready once for all the answers that they may end: 40 bytes for each of theirs,
// which a request of thousands of answers has room for once. Never changes: for any thread.
// (Aho, Corasick 1975.)
class StopStrings {
 public:
  // Empty ones are passed over. Takes memory and time linear in their bytes; how many and how long
  // they may be is for the caller to bound.
  explicit StopStrings(std::vector<std::string> strings);

 private:
  friend class StopStringMatcher;

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

  std::vector<std::string> strings_;
  std::vector<Node> nodes_;  // the root is the first
};

// Matching ends at the first byte at which any stop string ends; of several that end there the
// longest counts. The released text ends before that stop string, or behind it where
// `include_stop`; what came after it is dropped. Not thread-safe; owned and called by whoever
// streams one answer.
class StopStringMatcher {
 public:
  // `stops`: shared with the other answers of a request.
  StopStringMatcher(std::shared_ptr<const StopStrings> stops, bool include_stop)
      : stops_(std::move(stops)), include_stop_(include_stop) {}

  // The text that `piece` releases: at most max(stop length) - 1 bytes stay held back. Empty once
  // a stop string has matched. Linear in `piece`, amortised.
  std::string push(std::string_view piece);

  // The same for text in which no stop string may end; one may begin in it and end behind it.
  std::string pass(std::string_view piece);

  // What is held back when the text ends without a stop string; empty where one has matched.
  std::string finish();

  // The index, in the list given, of the stop string that matched.
  std::optional<size_t> matched() const { return matched_; }
  // It itself, as long as the stop strings live. REQUIRES: one matched.
  const std::string& matched_string() const { return stops_->strings_[*matched_]; }

 private:
  std::string release(std::string text);

  std::shared_ptr<const StopStrings> stops_;
  bool include_stop_;
  uint32_t state_ = 0;  // a node
  std::string held_;    // the last bytes of the text, as many as the node is deep
  std::optional<size_t> matched_;
};

}  // namespace millrace
