#include "sched/waiting_queue.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

void WaitingQueue::insert(Sequence& sequence, FairShare& share) {
  const bool is_new = queues_[sequence.request().tenant].insert(&sequence).second;
  CHECK(is_new, "a sequence waits twice");
  share.begin_to_wait(sequence.request().tenant);
  ++size_;
  num_tokens_ += sequence.num_tokens();
}

void WaitingQueue::erase(Sequence& sequence, FairShare& share) {
  const auto found = queues_.find(sequence.request().tenant);
  CHECK(found != queues_.end() && found->second.erase(&sequence) == 1, "it does not wait");
  if (found->second.empty()) queues_.erase(found);
  share.stop_waiting(sequence.request().tenant);
  --size_;
  num_tokens_ -= sequence.num_tokens();
}

bool WaitingQueue::contains(const Sequence& sequence) const {
  const auto found = queues_.find(sequence.request().tenant);
  return found != queues_.end() && found->second.contains(&sequence);
}

Sequence& WaitingQueue::next(const FairShare& share) const {
  CHECK(!empty(), "nobody waits");
  const auto first =
      std::min_element(queues_.begin(), queues_.end(), [&share](const auto& a, const auto& b) {
        return share.num_served(a.first) < share.num_served(b.first);
      });
  return **first->second.begin();
}

}  // namespace millrace
