#include "cuda/device_meter.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "cuda/dense_product.h"
#include "cuda/device_buffer.h"
#include "cuda/event.h"
#include "cuda/native/read_memory.h"
#include "cuda/runtime.h"
#include "cuda/stream.h"
#include "tensor/dtype.h"

namespace millrace::cuda {
namespace {

constexpr size_t kNumBytesRead = size_t{1} << 30;
constexpr int kNumRepetitions = 5;
constexpr int32_t kProductSize = 8192;
constexpr size_t kWorkspaceBytes = size_t{32} << 20;

struct Memory {
  DeviceBuffer read;
  DeviceBuffer sink;
  DeviceBuffer workspace;
  DeviceBuffer x;
  DeviceBuffer w;
  DeviceBuffer y;
};

class NativeDeviceMeter : public DeviceMeter {
 public:
  NativeDeviceMeter(int32_t device, Stream stream, Event first, Event last)
      : device_(device),
        stream_(std::move(stream)),
        first_(std::move(first)),
        last_(std::move(last)) {}

  Result<void> prepare();

  double read_bytes_per_second() override {
    const double seconds = least_seconds([this] {
      read_memory(stream_.handle(), memory_.read.data(), kNumBytesRead, memory_.sink.data());
    });
    return static_cast<double>(kNumBytesRead) / seconds;
  }

  double operations_per_second() override {
    const double seconds = least_seconds([this] { products_->run(stream_.handle(), product_); });
    return 2.0 * kProductSize * kProductSize * kProductSize / seconds;
  }

 private:
  double least_seconds(const std::function<void()>& give_work) const {
    use_device(device_);
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kNumRepetitions; ++i) {
      first_.record(stream_.handle());
      give_work();
      last_.record(stream_.handle());
      last_.wait();
      least = std::min(least, double{elapsed_ms(first_.handle(), last_.handle())} / 1e3);
    }
    return least;
  }

  void fill_randomly(const DeviceBuffer& matrix, uint64_t seed) const;

  int32_t device_;
  Stream stream_;
  Event first_;
  Event last_;
  Memory memory_;
  std::unique_ptr<DenseProducts> products_;
  DenseProduct product_;
};

// A device runs slower on what it must spend power on than on zeros.
void NativeDeviceMeter::fill_randomly(const DeviceBuffer& matrix, uint64_t seed) const {
  std::vector<uint16_t> bits(matrix.num_bytes() / sizeof(uint16_t));
  for (size_t i = 0; i < bits.size(); ++i) {
    bits[i] = to_bfloat16(static_cast<float>(random_unit(seed, i) - 0.5)).bits;
  }
  matrix.write(stream_.handle(), std::as_bytes(std::span(bits)));
  stream_.wait();
}

Result<void> NativeDeviceMeter::prepare() {
  constexpr size_t kMatrixBytes = size_t{kProductSize} * kProductSize * sizeof(uint16_t);
  const std::pair<DeviceBuffer*, size_t> sizes[] = {
      {&memory_.read, kNumBytesRead},
      {&memory_.sink, sizeof(uint32_t)},
      {&memory_.workspace, kWorkspaceBytes},
      {&memory_.x, kMatrixBytes},
      {&memory_.w, kMatrixBytes},
      {&memory_.y, kMatrixBytes},
  };
  for (const auto& [buffer, num_bytes] : sizes) {
    Result<DeviceBuffer> taken = DeviceBuffer::allocate(num_bytes);
    if (!taken) return taken.error();
    *buffer = *std::move(taken);
  }
  memory_.read.fill(stream_.handle(), 1);
  fill_randomly(memory_.x, 1);
  fill_randomly(memory_.w, 2);
  Result<std::unique_ptr<DenseProducts>> products =
      open_dense_products({memory_.workspace.data(), memory_.workspace.num_bytes()});
  if (!products) return products.error();
  products_ = *std::move(products);
  product_ = {
      .shape =
          {.num_rows = kProductSize,
           .num_inputs = kProductSize,
           .num_outputs = kProductSize,
           .output = ProductOutput::kBFloat16},
      .x = memory_.x.as<uint16_t>(),
      .w = memory_.w.as<uint16_t>(),
      .y = memory_.y.data(),
  };
  return products_->prepare(product_.shape);
}

}  // namespace

Result<std::unique_ptr<DeviceMeter>> open_device_meter(int32_t device) {
  if (const Result<DeviceInfo> found = find_device(device); !found) return found.error();
  use_device(device);
  Result<Stream> stream = Stream::create();
  if (!stream) return stream.error();
  Result<Event> first = Event::create(EventKind::kTimed);
  if (!first) return first.error();
  Result<Event> last = Event::create(EventKind::kTimed);
  if (!last) return last.error();
  auto meter = std::make_unique<NativeDeviceMeter>(
      device, *std::move(stream), *std::move(first), *std::move(last)
  );
  if (Result<void> done = meter->prepare(); !done) return done.error();
  return std::unique_ptr<DeviceMeter>(std::move(meter));
}

}  // namespace millrace::cuda
