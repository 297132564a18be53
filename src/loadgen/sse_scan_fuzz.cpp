// Any bytes as the answer of a server: the record must not depend on how they are split, and its
// times and counts must keep their order.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/check.h"
#include "loadgen/exchange.h"
#include "text/unicode.h"

namespace {

using millrace::bench::Exchange;
using millrace::bench::Nanos;
using millrace::bench::RequestRecord;

RequestRecord read(std::string_view bytes, size_t step) {
  millrace::bench::EventReader reader;
  Exchange exchange({.keeps_texts = true});
  auto run = std::make_unique<millrace::bench::SessionRun>(millrace::bench::SessionRun{
      .conversation = millrace::bench::Conversation(millrace::bench::Protocol::kCompletions)});
  run->plan.turns.resize(1);
  exchange.start(std::move(run));
  exchange.note_sent(Nanos(0));
  bool has_ended = false;
  for (size_t at = 0; at < bytes.size() && !has_ended; at += step) {
    const std::string piece(bytes.substr(at, step));
    has_ended = exchange.take(piece, Nanos(1), reader);
  }
  if (!has_ended) exchange.end_of_connection(Nanos(1), "it closed", reader);
  return std::move(exchange.record());
}

// As if it came behind the head of a stream, unless it starts with one itself.
std::string answer(std::string_view bytes) {
  if (bytes.starts_with("HTTP")) return std::string(bytes);
  return "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n" + std::string(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes = answer({reinterpret_cast<const char*>(data), size});
  const RequestRecord whole = read(bytes, bytes.size());
  const RequestRecord pieces = read(bytes, size == 0 ? 1 : 1 + data[0] % 7);
  CHECK(whole == pieces, "splits change nothing");
  CHECK(millrace::is_valid_utf8(whole.text) && millrace::is_valid_utf8(whole.error), "UTF-8");
  CHECK(millrace::is_valid_utf8(whole.finish_reason), "UTF-8");
  CHECK(whole.num_output_tokens >= 0, "counts are none below zero");
  CHECK(whole.outcome != millrace::bench::Outcome::kUnfinished, "the connection's end ends it");
  return 0;
}
