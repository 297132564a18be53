#include "local_time.h"

#include <ctime>

namespace millrace {

std::chrono::local_seconds local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm fields{};
  ::localtime_r(&now, &fields);
  return std::chrono::local_seconds(std::chrono::seconds(::timegm(&fields)));
}

}  // namespace millrace
