#include "model/tensor_parallel.h"

#include <utility>

#include "base/check.h"
#include "model/batch_message.h"

namespace millrace {

TensorParallelRunner::TensorParallelRunner(std::unique_ptr<ModelRunner> part, ProcessGroup& group)
    : part_(std::move(part)), group_(group) {
  CHECK(group_.rank() == 0, "the others follow");
}

TensorParallelRunner::~TensorParallelRunner() {
  message_.clear();  // no batch
  group_.broadcast(message_);
}

std::span<const float> TensorParallelRunner::forward(const ForwardBatch& batch) {
  encode_batch(batch, message_);
  group_.broadcast(message_);
  return part_->forward(batch);
}

void follow_batches(ModelRunner& part, ProcessGroup& group) {
  std::vector<std::byte> message;
  for (;;) {
    group.broadcast(message);
    if (message.empty()) return;
    (void)part.forward(decode_batch(message));
  }
}

}  // namespace millrace
