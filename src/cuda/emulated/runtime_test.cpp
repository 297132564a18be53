// What the emulated device catches that a real one would answer with a fault, or with luck.
#include "cuda/runtime.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "cuda/device_buffer.h"
#include "cuda/emulated/work.h"
#include "cuda/event.h"
#include "cuda/graph.h"
#include "cuda/pinned_buffer.h"
#include "cuda/stream.h"

namespace millrace::cuda {
namespace {

TEST(EmulatedMemory, BeginsAsNoNumber) {
  const DeviceBuffer buffer = *DeviceBuffer::allocate(4);
  EXPECT_TRUE(std::isnan(*buffer.as<float>()));
}

TEST(EmulatedMemoryDeathTest, KnowsItsOwnPieces) {
  const DeviceBuffer buffer = *DeviceBuffer::allocate(16);
  std::array<std::byte, 32> host{};
  EXPECT_DEATH(free_device(host.data()), "was not allocated here");
  EXPECT_DEATH(free_device(buffer.as<std::byte>(8)), "was not allocated here");
  EXPECT_DEATH(free_pinned(buffer.data()), "was not allocated here");
}

TEST(EmulatedMemoryDeathTest, CatchesCopiesBeyondAnEnd) {
  const DeviceBuffer buffer = *DeviceBuffer::allocate(16);
  const DeviceBuffer other = *DeviceBuffer::allocate(16);
  std::array<std::byte, 32> host{};
  const std::string not_one = "a range that is not of one device allocation";
  EXPECT_DEATH(copy_to_device({}, buffer.data(), host), not_one);
  EXPECT_DEATH(copy_to_host({}, host, buffer.data()), not_one);
  EXPECT_DEATH(copy_to_host({}, std::span(host).first(16), buffer.as<std::byte>(1)), not_one);
  EXPECT_DEATH(set_bytes({}, buffer.data(), 0, 17), not_one);
  EXPECT_DEATH(copy_on_device({}, buffer.data(), host.data(), 16), not_one);
  EXPECT_DEATH(
      copy_on_device({}, buffer.data(), buffer.as<std::byte>(8), 8 + 1), not_one + "|onto itself"
  );
  EXPECT_DEATH(
      copy_to_host({}, {other.as<std::byte>(), 16}, buffer.data()), "a host's is expected"
  );
}

TEST(EmulatedCaptureDeathTest, RefusesWhatADeviceRefuses) {
  const Stream stream = *Stream::create();
  const auto capture = [&stream](const std::function<void()>& give_work) {
    static_cast<void>(Graph::capture(stream.handle(), give_work));
  };
  EXPECT_DEATH(capture([&] { stream.wait(); }), "waited for a stream that captures");
  EXPECT_DEATH(capture([] { static_cast<void>(allocate_device(1)); }), "in a capture");
  EXPECT_DEATH(capture([] { run_or_record({}, [] {}); }), "the default stream was given work");
  EXPECT_DEATH(static_cast<void>(Graph::capture({}, [] {})), "the default stream cannot capture");
}

TEST(LateStream, HasNotDoneWhatNobodyWaitedFor) {
  const LateStreams late;
  const Stream stream = *Stream::create();
  const PinnedBuffer host = *PinnedBuffer::allocate(1);
  const DeviceBuffer buffer = *DeviceBuffer::allocate(1);
  host.bytes()[0] = std::byte{0};
  buffer.fill(stream.handle(), 6);
  buffer.read(stream.handle(), host.bytes());
  EXPECT_EQ(host.bytes()[0], std::byte{0});
  stream.wait();
  EXPECT_EQ(host.bytes()[0], std::byte{6});
}

TEST(LateStream, ReadsPinnedMemoryWhenItGetsThere) {
  const LateStreams late;
  const Stream stream = *Stream::create();
  const PinnedBuffer pinned = *PinnedBuffer::allocate(1);
  std::vector<std::byte> pageable(1, std::byte{1});
  pinned.bytes()[0] = std::byte{1};
  const DeviceBuffer buffer = *DeviceBuffer::allocate(2);
  buffer.write(stream.handle(), pinned.bytes(), 0);
  buffer.write(stream.handle(), pageable, 1);
  pinned.bytes()[0] = std::byte{2};
  pageable[0] = std::byte{2};
  std::array<std::byte, 2> read{};
  buffer.read(stream.handle(), read);  // not pinned: there when the call returns
  EXPECT_EQ(read[0], std::byte{2});
  EXPECT_EQ(read[1], std::byte{1});
}

TEST(LateStream, IsDoneAsFarAsAnEventStandsFor) {
  const LateStreams late;
  const Stream first = *Stream::create();
  const Stream second = *Stream::create();
  const Event event = *Event::create(EventKind::kUntimed);
  std::vector<int> order;
  run_or_record(first.handle(), [&] { order.push_back(1); });
  event.record(first.handle());
  run_or_record(first.handle(), [&] { order.push_back(2); });
  make_stream_wait(second.handle(), event.handle());
  run_or_record(second.handle(), [&] { order.push_back(3); });
  EXPECT_TRUE(order.empty());
  second.wait();
  EXPECT_EQ(order, (std::vector{1, 3}));
  first.wait();
  EXPECT_EQ(order, (std::vector{1, 3, 2}));
}

TEST(LateStream, IsFinishedByWhoeverAsksOftenEnough) {
  const LateStreams late;
  const Stream stream = *Stream::create();
  const Event event = *Event::create(EventKind::kUntimed);
  int num_done = 0;
  for (int i = 0; i < 3; ++i) run_or_record(stream.handle(), [&] { ++num_done; });
  event.record(stream.handle());
  EXPECT_FALSE(is_done(event.handle()));
  int num_asked = 1;
  while (!is_done(event.handle())) ++num_asked;
  EXPECT_EQ(num_done, 3);
  EXPECT_EQ(num_asked, 4);
}

TEST(LateStream, IsDoneBeforeItsMemoryGoes) {
  const LateStreams late;
  const PinnedBuffer host = *PinnedBuffer::allocate(1);
  {
    const Stream stream = *Stream::create();
    const DeviceBuffer buffer = *DeviceBuffer::allocate(1);
    buffer.fill(stream.handle(), 6);
    buffer.read(stream.handle(), host.bytes());
  }
  EXPECT_EQ(host.bytes()[0], std::byte{6});
}

}  // namespace
}  // namespace millrace::cuda
