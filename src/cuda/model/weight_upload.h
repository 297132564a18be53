// Tensors on their way from a checkpoint to a device: rows are converted into one of two pinned
// pieces of host memory while the other is copied; those of matrices go to a piece of the device's
// memory, from which they are packed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/weight_source.h"
#include "cuda/device_buffer.h"
#include "cuda/event.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/pack_weights.h"
#include "cuda/pinned_buffer.h"
#include "cuda/stream.h"
#include "kernels/quantized/quantized_matrix.h"

namespace millrace::cuda {

// Belongs to one thread.
class WeightUpload {
 public:
  // `row_length_max`: elements of the longest row. Borrows source, stream and pool.
  // kResourceExhausted: no such host memory, or device memory.
  static Result<WeightUpload> create(
      const WeightSource& source, StreamHandle stream, ThreadPool& pool, size_t row_length_max
  );

  // Where the rows of a tensor go in a matrix of the device: see PackWeightsArgs.
  struct Place {
    uint16_t* packed = nullptr;
    RowPlaces places = RowPlaces::kFollowing;
    size_t first_row = 0;
  };

  // Zeros for num_weight_elements(), before the rows of a matrix.
  void clear(uint16_t* packed, size_t num_elements);
  // Into the stream. REQUIRES: a tensor of the source that check_readable() lets pass.
  void pack_as_bfloat16(const TensorInfo& tensor, Place place);
  // `to` is device memory for all elements of the tensor.
  void copy_as_float(const TensorInfo& tensor, float* to);
  // `packed`: num_code_bytes() of device memory. Rounded by the processor; kSiluMul: panels of gate
  // and up in turn. The matrix may be gone when this returns.
  void pack_quantized(const QuantizedMatrix& matrix, LinearEpilogue epilogue, void* packed);
  // As they are. `bytes` may be gone when this returns.
  void copy_bytes(std::span<const std::byte> bytes, void* to);

  void wait() const { wait_for(stream_); }

 private:
  struct Stage {
    PinnedBuffer buffer;
    Event is_free;  // when what was copied from it is there
  };

  WeightUpload(
      const WeightSource& source,
      StreamHandle stream,
      ThreadPool& pool,
      Stage first,
      Stage second,
      DeviceBuffer rows
  )
      : source_(source),
        stream_(stream),
        pool_(pool),
        stages_{std::move(first), std::move(second)},
        rows_(std::move(rows)) {}

  static Result<Stage> make_stage(size_t num_bytes);

  // The next piece of host memory, when the device has read it.
  Stage& next_stage();
  void send(Stage& stage, std::span<const std::byte> host, void* to);
  // Rows of a tensor as bfloat16 in `out`, split over the threads.
  void convert_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<uint16_t> out
  );

  const WeightSource& source_;
  StreamHandle stream_;
  ThreadPool& pool_;
  std::array<Stage, 2> stages_;
  DeviceBuffer rows_;  // as long as a stage: rows, or panels of codes
  size_t next_ = 0;
};

}  // namespace millrace::cuda
