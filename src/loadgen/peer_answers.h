// For tests: what a server of completions sends, piece by piece, for a ScriptedPeer or none.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "loadgen/scripted_peer.h"

namespace millrace::bench {

inline std::string peer_head(std::string_view type = "text/event-stream") {
  return fmt::format(
      "HTTP/1.1 200 OK\r\ncontent-type: {}\r\ntransfer-encoding: chunked\r\n\r\n", type
  );
}
inline std::string peer_chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}
inline std::string peer_event(std::string_view data) {
  return peer_chunk(fmt::format("data: {}\n\n", data));
}
inline std::string peer_text(std::string_view text) {
  return peer_event(fmt::format(
      R"({{"id":"c-1","choices":[{{"index":0,"text":"{}","finish_reason":null}}]}})", text
  ));
}
inline std::string peer_end() {
  return fmt::format(
      "{}{}0\r\n\r\n",
      peer_event(R"({"id":"c-1","choices":[{"index":0,"text":"","finish_reason":"length"}]})"),
      peer_event("[DONE]")
  );
}
inline std::string peer_answer(int status, std::string_view body, std::string_view type) {
  return fmt::format(
      "HTTP/1.1 {} X\r\ncontent-type: {}\r\ncontent-length: {}\r\n\r\n{}",
      status,
      type,
      body.size(),
      body
  );
}
// Streams `num_tokens` words of one token each.
inline PeerScript peer_stream(
    int64_t num_tokens,
    std::chrono::milliseconds ttft = std::chrono::milliseconds(0),
    std::chrono::milliseconds itl = std::chrono::milliseconds(0)
) {
  PeerScript script = {{.bytes = peer_head()}};
  for (int64_t i = 0; i < num_tokens; ++i) {
    script.push_back({.delay = i == 0 ? ttft : itl, .bytes = peer_text(fmt::format("w{}", i))});
  }
  script.push_back({.bytes = peer_end()});
  return script;
}

}  // namespace millrace::bench
