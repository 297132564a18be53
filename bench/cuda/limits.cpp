// cuda_limits: what a CUDA device can do at most, measured: the figures that kernels are held
// against. One line each; the best of some repetitions, since others' work only ever adds time.
// Exit code 1 where there is no device.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "cuda/device_buffer.h"
#include "cuda/device_meter.h"
#include "cuda/event.h"
#include "cuda/pinned_buffer.h"
#include "cuda/runtime.h"
#include "cuda/stream.h"

namespace millrace::cuda {
namespace {

constexpr size_t kNumBytes = size_t{1} << 30;  // far more than any L2 cache
constexpr int kNumRepetitions = 20;

class Meter {
 public:
  static Result<Meter> create() {
    Result<Stream> stream = Stream::create();
    if (!stream) return stream.error();
    Result<Event> first = Event::create(EventKind::kTimed);
    if (!first) return first.error();
    Result<Event> last = Event::create(EventKind::kTimed);
    if (!last) return last.error();
    return Meter(*std::move(stream), *std::move(first), *std::move(last));
  }

  StreamHandle stream() const { return stream_.handle(); }

  // The least seconds of what `give_work` gives to the stream.
  double least_seconds(const std::function<void()>& give_work) const {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < kNumRepetitions; ++i) {
      first_.record(stream());
      give_work();
      last_.record(stream());
      last_.wait();
      least = std::min(least, double{elapsed_ms(first_.handle(), last_.handle())} / 1e3);
    }
    return least;
  }

 private:
  Meter(Stream stream, Event first, Event last)
      : stream_(std::move(stream)), first_(std::move(first)), last_(std::move(last)) {}

  Stream stream_;
  Event first_;
  Event last_;
};

void print_bandwidth(const char* what, double num_bytes, double seconds) {
  fmt::print("{:<22} {:8.1f} GB/s\n", what, num_bytes / seconds / 1e9);
}

Result<void> measure_memory(const Meter& meter) {
  const Result<DeviceBuffer> first = DeviceBuffer::allocate(kNumBytes);
  if (!first) return first.error();
  const Result<DeviceBuffer> second = DeviceBuffer::allocate(kNumBytes);
  if (!second) return second.error();
  const Result<PinnedBuffer> host = PinnedBuffer::allocate(kNumBytes / 4);
  if (!host) return host.error();
  std::ranges::fill(host->bytes(), std::byte{1});
  first->fill(meter.stream(), 1);
  second->fill(meter.stream(), 2);

  const double copied = meter.least_seconds([&] {
    copy_on_device(meter.stream(), second->data(), first->data(), kNumBytes);
  });
  print_bandwidth("copy (read + write)", 2.0 * kNumBytes, copied);
  const double written = meter.least_seconds([&] { second->fill(meter.stream(), 3); });
  print_bandwidth("write", kNumBytes, written);
  const double sent = meter.least_seconds([&] { first->write(meter.stream(), host->bytes()); });
  print_bandwidth("pinned host to device", static_cast<double>(host->num_bytes()), sent);
  const double received = meter.least_seconds([&] { first->read(meter.stream(), host->bytes()); });
  print_bandwidth("device to pinned host", static_cast<double>(host->num_bytes()), received);
  return {};
}

Result<void> measure_reading_and_products(int32_t device) {
  const Result<std::unique_ptr<DeviceMeter>> meter = open_device_meter(device);
  if (!meter) return meter.error();
  fmt::print("{:<22} {:8.1f} GB/s\n", "read", (*meter)->read_bytes_per_second() / 1e9);
  fmt::print(
      "{:<22} {:8.1f} TFLOP/s\n", "bf16 product, 8192^3", (*meter)->operations_per_second() / 1e12
  );
  return {};
}

Result<void> measure() {
  const Result<DeviceInfo> device = find_device(0);
  if (!device) return device.error();
  use_device(device->index);
  fmt::print(
      "{:<22} {}, compute capability {}.{}, {} multiprocessors, {:.1f} GiB, driver for CUDA {}.{}, "
      "built {}\n",
      "device",
      device->name,
      device->compute_capability / 10,
      device->compute_capability % 10,
      device->num_multiprocessors,
      static_cast<double>(device->num_memory_bytes) / (1024.0 * 1024.0 * 1024.0),
      device->driver_version / 1000,
      device->driver_version % 1000 / 10,
      describe_build()
  );
  const Result<Meter> meter = Meter::create();
  if (!meter) return meter.error();
  if (const Result<void> measured = measure_memory(*meter); !measured) return measured.error();
  return measure_reading_and_products(device->index);
}

}  // namespace
}  // namespace millrace::cuda

int main() {
  const millrace::Result<void> measured = millrace::cuda::measure();
  if (measured) return 0;
  fmt::print(stderr, "cuda_limits: {}\n", measured.error().message);
  return 1;
}
