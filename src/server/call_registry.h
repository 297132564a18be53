// The calls under way by the ids of their HTTP requests, so that a client can abort one from
// another connection. Thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace millrace {

class GenerationCall;

class CallRegistry {
 public:
  // Several calls may have one id: clients choose it.
  void add(const std::string& id, std::weak_ptr<GenerationCall> call);
  // Nothing happens if it is not there.
  void remove(const std::string& id, const GenerationCall& call);

  // The calls of this id, or all, that are still under way.
  std::vector<std::shared_ptr<GenerationCall>> find(const std::string& id) const;
  std::vector<std::shared_ptr<GenerationCall>> all() const;

 private:
  struct Entry {
    const GenerationCall* call = nullptr;  // for comparison only
    std::weak_ptr<GenerationCall> weak;
  };

  mutable std::mutex mutex_;  // guards the map
  std::unordered_multimap<std::string, Entry> calls_;
};

}  // namespace millrace
