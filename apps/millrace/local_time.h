// The wall clock of the person who asks, for chat templates that print the date.
#pragma once

#include <chrono>

namespace millrace {

std::chrono::local_seconds local_now();

}  // namespace millrace
