// Graphs, on whatever device the program is linked with.
#include "cuda/graph.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "cuda/device_buffer.h"
#include "cuda/event.h"
#include "cuda/pinned_buffer.h"
#include "cuda/stream.h"

namespace millrace::cuda {
namespace {

// A stream, and two buffers on the device with the host's ends of them.
class GraphTest : public testing::Test {
 protected:
  static constexpr size_t kNumBytes = 64;

  Stream stream_ = *Stream::create();
  DeviceBuffer input_ = *DeviceBuffer::allocate(kNumBytes);
  DeviceBuffer output_ = *DeviceBuffer::allocate(kNumBytes);
  PinnedBuffer sent_ = *PinnedBuffer::allocate(kNumBytes);
  PinnedBuffer received_ = *PinnedBuffer::allocate(kNumBytes);

  void give_round_trip() const {
    input_.write(stream_.handle(), sent_.bytes());
    copy_on_device(stream_.handle(), output_.data(), input_.data(), kNumBytes);
    output_.read(stream_.handle(), received_.bytes());
  }

  void set(PinnedBuffer& buffer, int value) {
    for (std::byte& byte : buffer.bytes()) byte = static_cast<std::byte>(value);
  }
  int first_received() const { return std::to_integer<int>(received_.bytes()[0]); }
};

TEST_F(GraphTest, DoesNothingWhileItIsCaptured) {
  set(sent_, 1);
  set(received_, 0);
  const Result<Graph> graph = Graph::capture(stream_.handle(), [this] { give_round_trip(); });
  ASSERT_TRUE(graph) << graph.error().message;
  stream_.wait();
  EXPECT_EQ(first_received(), 0);
}

TEST_F(GraphTest, ReadsWhatIsThereAtEachLaunch) {
  const Result<Graph> graph = Graph::capture(stream_.handle(), [this] { give_round_trip(); });
  ASSERT_TRUE(graph) << graph.error().message;
  for (const int value : {1, 2, 3}) {
    set(sent_, value);
    graph->launch(stream_.handle());
    stream_.wait();
    EXPECT_EQ(first_received(), value);
  }
}

TEST_F(GraphTest, RunsWhereItIsInItsStream) {
  const Result<Graph> graph = Graph::capture(stream_.handle(), [this] {
    copy_on_device(stream_.handle(), output_.data(), input_.data(), kNumBytes);
  });
  ASSERT_TRUE(graph) << graph.error().message;
  input_.fill(stream_.handle(), 7);
  graph->launch(stream_.handle());
  input_.fill(stream_.handle(), 8);
  output_.read(stream_.handle(), received_.bytes());
  stream_.wait();
  EXPECT_EQ(first_received(), 7);
}

TEST_F(GraphTest, HoldsTheWorkOfStreamsThatJoin) {
  const Stream other = *Stream::create();
  const Event forked = *Event::create(EventKind::kUntimed);
  const Event joined = *Event::create(EventKind::kUntimed);
  const Result<Graph> graph = Graph::capture(stream_.handle(), [&] {
    input_.fill(stream_.handle(), 4);
    forked.record(stream_.handle());
    make_stream_wait(other.handle(), forked.handle());
    copy_on_device(other.handle(), output_.data(), input_.data(), kNumBytes);
    joined.record(other.handle());
    make_stream_wait(stream_.handle(), joined.handle());
    output_.read(stream_.handle(), received_.bytes());
  });
  ASSERT_TRUE(graph) << graph.error().message;
  set(received_, 0);
  graph->launch(stream_.handle());
  stream_.wait();
  EXPECT_EQ(first_received(), 4);
  // The other stream has left the capture: what it is given is done.
  output_.fill(other.handle(), 5);
  output_.read(other.handle(), received_.bytes());
  other.wait();
  EXPECT_EQ(first_received(), 5);
}

TEST_F(GraphTest, OutlivesItsMove) {
  Result<Graph> graph = Graph::capture(stream_.handle(), [this] { give_round_trip(); });
  ASSERT_TRUE(graph) << graph.error().message;
  std::vector<Graph> graphs;
  graphs.push_back(*std::move(graph));
  set(sent_, 9);
  graphs.front().launch(stream_.handle());
  stream_.wait();
  EXPECT_EQ(first_received(), 9);
}

TEST_F(GraphTest, MayHoldNothing) {
  const Result<Graph> graph = Graph::capture(stream_.handle(), [] {});
  ASSERT_TRUE(graph) << graph.error().message;
  graph->launch(stream_.handle());
  stream_.wait();
}

}  // namespace
}  // namespace millrace::cuda
