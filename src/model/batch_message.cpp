#include "model/batch_message.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace millrace {
namespace {

// Calls visit() for each array. Batch: ForwardBatch, const or not.
template <class Batch, class Visitor>
void visit_arrays(Batch& batch, Visitor& visit) {
  visit(batch.token_ids);
  visit(batch.positions);
  visit(batch.slot_mapping);
  visit(batch.cu_seqlens);
  visit(batch.context_lens);
  visit(batch.block_tables);
  visit(batch.logit_rows);
  visit(batch.block_copies);
  visit(batch.hidden_saves);
}

// Each array as its size and its elements, as they lie in memory.
struct Writer {
  std::vector<std::byte>& message;

  void put(std::span<const std::byte> bytes) {
    if (bytes.empty()) return;
    const size_t size = message.size();
    message.resize(size + bytes.size());
    std::memcpy(message.data() + size, bytes.data(), bytes.size());
  }
  template <class T>
  void operator()(const std::vector<T>& array) {
    static_assert(std::is_trivially_copyable_v<T>);
    const uint64_t size = array.size();
    put(std::as_bytes(std::span(&size, 1)));
    put(std::as_bytes(std::span(array)));
  }
};

struct Reader {
  std::span<const std::byte> left;

  void take(std::span<std::byte> bytes) {
    CHECK(bytes.size() <= left.size(), "a whole batch");
    if (bytes.empty()) return;
    std::memcpy(bytes.data(), left.data(), bytes.size());
    left = left.subspan(bytes.size());
  }
  template <class T>
  void operator()(std::vector<T>& array) {
    uint64_t size = 0;
    take(std::as_writable_bytes(std::span(&size, 1)));
    CHECK(size <= left.size() / sizeof(T), "a whole batch");
    array.resize(size);
    take(std::as_writable_bytes(std::span(array)));
  }
};

}  // namespace

void encode_batch(const ForwardBatch& batch, std::vector<std::byte>& message) {
  CHECK(batch.draws.empty() && batch.pending.empty(), "tokens are drawn from rank 0's logits");
  message.clear();
  Writer writer{message};
  writer.put(std::as_bytes(std::span(&batch.max_blocks_per_sequence, 1)));
  visit_arrays(batch, writer);
}

ForwardBatch decode_batch(std::span<const std::byte> message) {
  ForwardBatch batch;
  Reader reader{message};
  reader.take(std::as_writable_bytes(std::span(&batch.max_blocks_per_sequence, 1)));
  visit_arrays(batch, reader);
  CHECK(reader.left.empty(), "a batch and no more");
  return batch;
}

}  // namespace millrace
