// Deadlines of many connections behind one timer. Deadlines mostly move later (each request sets a
// new one), so the queue keeps an entry where it was until its time comes and looks then: moving a
// deadline later costs nothing.
// Not thread-safe; owned and called by one I/O thread.
#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace millrace::http {

class Connection;

// A connection's place in the queue.
struct Deadline {
  Connection* owner = nullptr;
  std::optional<TimePoint> at;      // when it counts
  std::optional<TimePoint> queued;  // where it stands in the queue: `at` or earlier
};

class DeadlineQueue {
 public:
  void set(Deadline& deadline, TimePoint at) {
    deadline.at = at;
    if (deadline.queued && *deadline.queued <= at) return;
    remove(deadline);
    insert(deadline);
  }

  void clear(Deadline& deadline) { deadline.at.reset(); }

  // REQUIRED before a deadline's owner is destroyed.
  void remove(Deadline& deadline) {
    if (deadline.queued) entries_.erase({*deadline.queued, &deadline});
    deadline.queued.reset();
  }

  // When to call take_expired() next; nullopt: there is nothing to wait for.
  std::optional<TimePoint> next() const {
    if (entries_.empty()) return std::nullopt;
    return entries_.begin()->first;
  }

  // The owners whose deadlines have passed, cleared; deadlines that moved later are queued anew.
  std::vector<Connection*> take_expired(TimePoint now) {
    std::vector<Connection*> expired;
    while (!entries_.empty() && entries_.begin()->first <= now) {
      Deadline& deadline = *entries_.begin()->second;
      remove(deadline);
      if (!deadline.at) continue;
      if (*deadline.at > now) {
        insert(deadline);
      } else {
        deadline.at.reset();
        expired.push_back(deadline.owner);
      }
    }
    return expired;
  }

 private:
  void insert(Deadline& deadline) {
    deadline.queued = deadline.at;
    entries_.emplace(*deadline.queued, &deadline);
  }

  std::set<std::pair<TimePoint, Deadline*>> entries_;
};

}  // namespace millrace::http
