// The sequences that wait, and who of them is next. In order of precedence, so that a preempted one
// returns to its old place; under the fair policy that is so within each tenant, and the tenant
// that has been served least is next. Pointers are borrowed. Pure; owned by the scheduler.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "base/id.h"
#include "sched/fair_share.h"
#include "sched/sequence.h"

namespace millrace {

struct BeforeInOrder {
  using is_transparent = void;
  bool operator()(const Sequence* a, const Sequence* b) const {
    return a->precedence() < b->precedence();
  }
};

class WaitingQueue {
 public:
  // `share` is told that a sequence of the tenant waits, or waits no more.
  void insert(Sequence& sequence, FairShare& share);
  void erase(Sequence& sequence, FairShare& share);  // REQUIRES: it is here
  bool contains(const Sequence& sequence) const;

  // REQUIRES: not empty.
  Sequence& next(const FairShare& share) const;

  int32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  int64_t num_tokens() const { return num_tokens_; }  // to be computed, as far as they are known

 private:
  using Queue = std::set<Sequence*, BeforeInOrder>;

  std::map<TenantId, Queue> queues_;  // none is empty; one for all but under the fair policy
  int32_t size_ = 0;
  int64_t num_tokens_ = 0;
};

}  // namespace millrace
