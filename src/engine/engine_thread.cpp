#include "engine/engine_thread.h"

#include <pthread.h>
#include <sched.h>

namespace millrace {

// Where the kernel does not take the policy, the engine is no less right.
void become_engine_thread() {
  pthread_setname_np(pthread_self(), "engine");
  const sched_param no_priority = {};
  static_cast<void>(pthread_setschedparam(pthread_self(), SCHED_BATCH, &no_priority));
}

}  // namespace millrace
