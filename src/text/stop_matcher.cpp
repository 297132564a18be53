// An Aho-Corasick automaton with sparse children: stop strings are few.
#include "text/stop_matcher.h"

#include <deque>
#include <utility>

namespace millrace {

StopStrings::StopStrings(std::vector<std::string> strings)
    : strings_(std::move(strings)), nodes_(1) {
  for (size_t i = 0; i < strings_.size(); ++i) {
    if (!strings_[i].empty()) add(strings_[i], i);
  }
  link_suffixes();
}

uint32_t StopStrings::child(uint32_t node, uint8_t byte) const {
  uint32_t next = nodes_[node].first_child;
  while (next != 0 && nodes_[next].byte != byte) next = nodes_[next].next_sibling;
  return next;
}

void StopStrings::add(std::string_view stop, size_t index) {
  uint32_t node = 0;
  for (const char c : stop) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t next = child(node, byte);
    if (next == 0) {
      next = static_cast<uint32_t>(nodes_.size());
      Node added;
      added.byte = byte;
      added.next_sibling = nodes_[node].first_child;
      added.depth = nodes_[node].depth + 1;
      nodes_.push_back(added);
      nodes_[node].first_child = next;
    }
    node = next;
  }
  if (!nodes_[node].stop) nodes_[node].stop = index;
}

uint32_t StopStrings::next_state(uint32_t node, uint8_t byte) const {
  while (true) {
    const uint32_t next = child(node, byte);
    if (next != 0 || node == 0) return next;
    node = nodes_[node].fail;
  }
}

// Breadth first, so that the suffix of a node is linked before the node.
void StopStrings::link_suffixes() {
  std::deque<uint32_t> queue{0};
  while (!queue.empty()) {
    const uint32_t parent = queue.front();
    queue.pop_front();
    for (uint32_t node = nodes_[parent].first_child; node != 0; node = nodes_[node].next_sibling) {
      if (parent != 0) nodes_[node].fail = next_state(nodes_[parent].fail, nodes_[node].byte);
      if (!nodes_[node].stop) nodes_[node].stop = nodes_[nodes_[node].fail].stop;
      queue.push_back(node);
    }
  }
}

std::string StopStringMatcher::push(std::string_view piece) {
  if (matched_) return {};
  std::string text = std::exchange(held_, {});
  for (size_t i = 0; i < piece.size(); ++i) {
    state_ = stops_->next_state(state_, static_cast<uint8_t>(piece[i]));
    matched_ = stops_->nodes_[state_].stop;
    if (!matched_) continue;
    text.append(piece.substr(0, i + 1));
    if (!include_stop_) text.resize(text.size() - matched_string().size());
    return text;
  }
  text.append(piece);
  return release(std::move(text));
}

std::string StopStringMatcher::pass(std::string_view piece) {
  if (matched_) return {};
  const auto& nodes = stops_->nodes_;
  for (const char c : piece) state_ = stops_->next_state(state_, static_cast<uint8_t>(c));
  // A stop string that ended here begins no other.
  while (state_ != 0 && nodes[state_].first_child == 0) state_ = nodes[state_].fail;
  return release(std::exchange(held_, {}).append(piece));
}

// All of the text but what may begin a stop string, which is held.
std::string StopStringMatcher::release(std::string text) {
  const size_t num_held = stops_->nodes_[state_].depth;
  held_ = text.substr(text.size() - num_held);
  text.resize(text.size() - num_held);
  return text;
}

std::string StopStringMatcher::finish() {
  state_ = 0;
  return std::exchange(held_, {});
}

}  // namespace millrace
