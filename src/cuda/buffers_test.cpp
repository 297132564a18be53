// Memory, streams and events, on whatever device the program is linked with.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "cuda/device_buffer.h"
#include "cuda/event.h"
#include "cuda/pinned_buffer.h"
#include "cuda/runtime.h"
#include "cuda/stream.h"

namespace millrace::cuda {
namespace {

Stream make_stream() {
  Result<Stream> stream = Stream::create();
  CHECK(stream.ok(), stream.error().message);
  return *std::move(stream);
}

DeviceBuffer make_buffer(size_t num_bytes) {
  Result<DeviceBuffer> buffer = DeviceBuffer::allocate(num_bytes);
  CHECK(buffer.ok(), buffer.error().message);
  return *std::move(buffer);
}

TEST(Device, IsFoundWithItsSizes) {
  const Result<DeviceInfo> device = find_device(0);
  ASSERT_TRUE(device) << device.error().message;
  EXPECT_FALSE(device->name.empty());
  EXPECT_GE(device->compute_capability, 80);
  EXPECT_GE(device->num_multiprocessors, 1);
  EXPECT_GT(device->num_memory_bytes, 0);
  EXPECT_LE(device->num_memory_bytes_free, device->num_memory_bytes);
  EXPECT_GE(device->num_shared_bytes_per_block_max, 48 << 10);
  EXPECT_GE(device->driver_version, device->runtime_version / 1000 * 1000);
}

TEST(Device, IsNotFoundBehindTheLast) {
  const Result<DeviceInfo> device = find_device(1000);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(device.error().message.find("no CUDA device: there is no device 1000"), 0u);
}

TEST(DeviceBuffer, GoesThereAndBack) {
  const Stream stream = make_stream();
  const DeviceBuffer first = make_buffer(1000);
  const DeviceBuffer second = make_buffer(1000);
  Result<PinnedBuffer> sent = PinnedBuffer::allocate(1000);
  Result<PinnedBuffer> received = PinnedBuffer::allocate(1000);
  ASSERT_TRUE(sent && received);
  for (size_t i = 0; i < 1000; ++i) sent->bytes()[i] = static_cast<std::byte>(i * 7);

  first.write(stream.handle(), sent->bytes());
  copy_on_device(stream.handle(), second.data(), first.data(), 1000);
  first.fill(stream.handle(), 0);
  second.read(stream.handle(), received->bytes());
  stream.wait();
  EXPECT_TRUE(std::ranges::equal(sent->bytes(), received->bytes()));
}

TEST(DeviceBuffer, WritesAndReadsAPart) {
  const Stream stream = make_stream();
  const DeviceBuffer buffer = make_buffer(8);
  buffer.fill(stream.handle(), 5);
  const std::vector<std::byte> part(3, std::byte{9});
  buffer.write(stream.handle(), part, 4);
  std::vector<std::byte> all(8);
  buffer.read(stream.handle(), all);
  stream.wait();
  const uint8_t expected[] = {5, 5, 5, 5, 9, 9, 9, 5};
  EXPECT_TRUE(std::ranges::equal(all, expected, {}, [](std::byte b) { return uint8_t(b); }));
}

TEST(DeviceBuffer, OfNoBytesIsNoMemory) {
  const DeviceBuffer buffer = make_buffer(0);
  EXPECT_EQ(buffer.data(), nullptr);
  EXPECT_EQ(buffer.num_bytes(), 0u);
  const Stream stream = make_stream();
  buffer.fill(stream.handle(), 1);
  buffer.write(stream.handle(), {});
  buffer.read(stream.handle(), {});
  stream.wait();
}

TEST(DeviceBuffer, GivesBackWhatItTook) {
  const int64_t num_bytes_before = memory_info().num_bytes_free;
  constexpr size_t kNumBytes = size_t{64} << 20;
  {
    DeviceBuffer buffer = make_buffer(kNumBytes);
    EXPECT_LE(memory_info().num_bytes_free, num_bytes_before - static_cast<int64_t>(kNumBytes));
    const DeviceBuffer moved = std::move(buffer);
    EXPECT_EQ(buffer.data(), nullptr);
    EXPECT_EQ(moved.num_bytes(), kNumBytes);
    buffer = make_buffer(16);
  }
  EXPECT_EQ(memory_info().num_bytes_free, num_bytes_before);
}

TEST(DeviceBuffer, IsRefusedWhereThereIsNotAsMuch) {
  const Result<DeviceBuffer> buffer = DeviceBuffer::allocate(size_t{1} << 50);
  ASSERT_FALSE(buffer);
  EXPECT_EQ(buffer.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(buffer.error().message.find("1125899906842624 bytes"), std::string::npos);
  // And the device is as well as before.
  make_stream().wait();
  EXPECT_TRUE(DeviceBuffer::allocate(16));
}

TEST(DeviceBuffer, HasAlignedAddresses) {
  const DeviceBuffer buffer = make_buffer(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 256, 0u);
  EXPECT_EQ(static_cast<void*>(buffer.as<float>(16)), static_cast<std::byte*>(buffer.data()) + 16);
}

TEST(Event, OrdersTwoStreams) {
  const Stream writer = make_stream();
  const Stream reader = make_stream();
  Result<Event> written = Event::create(EventKind::kUntimed);
  ASSERT_TRUE(written);
  const DeviceBuffer buffer = make_buffer(1 << 20);
  Result<PinnedBuffer> received = PinnedBuffer::allocate(1 << 20);
  ASSERT_TRUE(received);

  buffer.fill(writer.handle(), 3);
  written->record(writer.handle());
  make_stream_wait(reader.handle(), written->handle());
  buffer.read(reader.handle(), received->bytes());
  reader.wait();
  EXPECT_TRUE(is_done(written->handle()));
  EXPECT_TRUE(std::ranges::all_of(received->bytes(), [](std::byte b) { return b == std::byte{3}; })
  );
}

TEST(Event, MeasuresTime) {
  const Stream stream = make_stream();
  Result<Event> first = Event::create(EventKind::kTimed);
  Result<Event> last = Event::create(EventKind::kTimed);
  ASSERT_TRUE(first && last);
  const DeviceBuffer buffer = make_buffer(1 << 20);
  first->record(stream.handle());
  buffer.fill(stream.handle(), 1);
  last->record(stream.handle());
  last->wait();
  const float elapsed = elapsed_ms(first->handle(), last->handle());
  EXPECT_GE(elapsed, 0.0f);
  EXPECT_LT(elapsed, 60'000.0f);
}

TEST(Event, ThatWasNeverRecordedHoldsUpNobody) {
  Result<Event> event = Event::create(EventKind::kUntimed);
  ASSERT_TRUE(event);
  const Stream stream = make_stream();
  make_stream_wait(stream.handle(), event->handle());
  EXPECT_TRUE(is_done(event->handle()));
  event->wait();
  stream.wait();
}

}  // namespace
}  // namespace millrace::cuda
