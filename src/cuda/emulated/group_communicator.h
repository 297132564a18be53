// Ranks on emulated devices: processes of a group, whose devices' memory is their own. Tests only.
#pragma once

#include <span>
#include <vector>

#include "cuda/communicator.h"
#include "cuda/emulated/work.h"
#include "parallel/process_group.h"

namespace millrace::cuda {

class GroupCommunicator : public Communicator {
 public:
  // Borrowed.
  explicit GroupCommunicator(ProcessGroup& group) : group_(group) {}

  int32_t rank() const override { return group_.rank(); }
  int32_t world_size() const override { return group_.world_size(); }

  void all_reduce_sum(StreamHandle stream, float* values, size_t num_values) override {
    run_or_record(stream, [this, values, num_values] {
      group_.all_reduce_sum({values, num_values});
    });
  }

  void all_gather(StreamHandle stream, const float* own, float* all, size_t num_values) override {
    run_or_record(stream, [this, own, all, num_values] {
      const std::vector<float> copy(own, own + num_values);  // it may be a part of `all`
      group_.all_gather(copy, {all, num_values * static_cast<size_t>(world_size())});
    });
  }

 private:
  ProcessGroup& group_;
};

}  // namespace millrace::cuda
