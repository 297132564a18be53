// Wakes the connections of many answers at once: one wake-up for each I/O thread, however many of
// its answers have news. Without it, each wake-up may take the processor from the thread that still
// has others to wake.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "http/exchange.h"
#include "http/mailbox.h"

namespace millrace::http {

// Used by one thread.
class WakeBatch {
 public:
  // As exchange.wake(), but the callback may wait for send().
  void add(Exchange& exchange) {
    if (auto mailbox = exchange.channel_->wake_later()) mailboxes_.push_back(std::move(mailbox));
  }

  // REQUIRES: is called soon after add(): until then nobody else wakes those threads.
  void send() {
    for (const std::shared_ptr<Mailbox>& mailbox : mailboxes_) mailbox->wake();
    mailboxes_.clear();
  }

 private:
  std::vector<std::shared_ptr<Mailbox>> mailboxes_;  // of the I/O threads that sleep on; they too
};

}  // namespace millrace::http
