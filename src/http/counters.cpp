#include "http/counters.h"

namespace millrace::http {

void Counters::add_to(CountersSnapshot& snapshot) const {
  snapshot.num_connections_open += read(kConnectionsOpen);
  snapshot.num_streams_open += read(kStreamsOpen);
  snapshot.num_connections_accepted += read(kConnectionsAccepted);
  snapshot.num_surplus_connections += read(kSurplusConnections);
  snapshot.num_accept_pauses += read(kAcceptPauses);
  snapshot.num_clients_gone += read(kClientsGone);
  snapshot.num_streams_cut += read(kStreamsCut);
  snapshot.num_timeouts += read(kTimeouts);
  snapshot.num_bytes_received += read(kBytesReceived);
  snapshot.num_bytes_sent += read(kBytesSent);
  for (int status = kStatusMin; status <= kStatusMax; ++status) {
    const uint64_t n = responses_[index_of(status)].load(std::memory_order_relaxed);
    if (n > 0) snapshot.num_responses[status] += n;
  }
}

}  // namespace millrace::http
