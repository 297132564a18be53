// Which process of this machine serves a port.
#pragma once

#include <cstdint>
#include <optional>

namespace millrace::bench {

// By /proc: the process whose descriptor is the socket that listens there. none: nobody, or not
// ours to see.
std::optional<int> find_listening_process(uint16_t port);

}  // namespace millrace::bench
