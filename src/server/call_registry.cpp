#include "server/call_registry.h"

#include <utility>

#include "server/generation_call.h"

namespace millrace {

void CallRegistry::add(const std::string& id, std::weak_ptr<GenerationCall> call) {
  const GenerationCall* raw = call.lock().get();
  const std::lock_guard lock(mutex_);
  calls_.emplace(id, Entry{.call = raw, .weak = std::move(call)});
}

void CallRegistry::remove(const std::string& id, const GenerationCall& call) {
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = calls_.equal_range(id);
  for (auto entry = begin; entry != end; ++entry) {
    if (entry->second.call != &call) continue;
    calls_.erase(entry);
    return;
  }
}

// The calls are let go of outside the lock: the last to let go of one removes it from here.
std::vector<std::shared_ptr<GenerationCall>> CallRegistry::find(const std::string& id) const {
  std::vector<std::shared_ptr<GenerationCall>> found;
  const std::lock_guard lock(mutex_);
  const auto [begin, end] = calls_.equal_range(id);
  for (auto entry = begin; entry != end; ++entry) {
    if (auto call = entry->second.weak.lock()) found.push_back(std::move(call));
  }
  return found;
}

std::vector<std::shared_ptr<GenerationCall>> CallRegistry::all() const {
  std::vector<std::shared_ptr<GenerationCall>> found;
  const std::lock_guard lock(mutex_);
  for (const auto& [id, entry] : calls_) {
    if (auto call = entry.weak.lock()) found.push_back(std::move(call));
  }
  return found;
}

}  // namespace millrace
