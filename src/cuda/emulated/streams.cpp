#include "cuda/emulated/streams.h"

#include <atomic>
#include <mutex>
#include <set>
#include <utility>

#include "base/check.h"
#include "cuda/emulated/work.h"

namespace millrace::cuda {
namespace {

using Clock = std::chrono::steady_clock;

// The process's streams, as a driver knows them.
struct Streams {
  std::mutex mutex;
  std::set<EmulatedStream*> all;
  std::atomic<int> num_late_scopes = 0;
};

Streams& streams() {
  static Streams streams;
  return streams;
}

int& num_captures_of_thread() {
  static thread_local int num_captures = 0;
  return num_captures;
}

void give(EmulatedStream& stream, Work work) {
  ++stream.num_given;
  stream.queue.push_back(std::move(work));
  if (!stream.is_late) catch_up(stream, stream.num_given);
}

void record_time(EmulatedEvent& event) {
  event.time = Clock::now();
  event.has_time = true;
}

}  // namespace

LateStreams::LateStreams() {
  ++streams().num_late_scopes;
}
LateStreams::~LateStreams() {
  --streams().num_late_scopes;
}

void run_or_record(StreamHandle stream, std::function<void()> work) {
  EmulatedStream* const emulated = stream_of(stream);
  if (emulated == nullptr) {
    CHECK(!is_capturing(), "the default stream was given work while another captures");
    work();
  } else if (emulated->capture) {
    emulated->capture->work.push_back(std::move(work));
  } else {
    give(*emulated, std::move(work));
  }
}

void catch_up(EmulatedStream& stream, uint64_t num_given) {
  while (stream.num_done < num_given) {
    CHECK(!stream.queue.empty(), "a stream waits for its own work");
    const Work work = std::move(stream.queue.front());
    stream.queue.pop_front();
    work();
    ++stream.num_done;
  }
}

void catch_up_all() {
  const std::lock_guard lock(streams().mutex);
  for (EmulatedStream* stream : streams().all) catch_up(*stream, stream->num_given);
}

bool is_capturing() {
  return num_captures_of_thread() > 0;
}

Result<StreamHandle> create_stream() {
  auto* const stream = new EmulatedStream;
  stream->is_late = streams().num_late_scopes > 0;
  const std::lock_guard lock(streams().mutex);
  streams().all.insert(stream);
  return StreamHandle{stream};
}

void destroy_stream(StreamHandle stream) {
  EmulatedStream* const emulated = stream_of(stream);
  if (emulated == nullptr) return;
  CHECK(!emulated->capture, "destroyed a stream that captures");
  catch_up(*emulated, emulated->num_given);
  const std::lock_guard lock(streams().mutex);
  CHECK(streams().all.erase(emulated) == 1, "destroyed a stream twice");
  delete emulated;
}

void wait_for(StreamHandle stream) {
  EmulatedStream* const emulated = stream_of(stream);
  if (emulated == nullptr) return;
  CHECK(!emulated->capture, "waited for a stream that captures");
  catch_up(*emulated, emulated->num_given);
}

Result<EventHandle> create_event(EventKind kind) {
  auto* const event = new EmulatedEvent;
  event->kind = kind;
  return EventHandle{event};
}

void destroy_event(EventHandle event) {
  EmulatedEvent* const emulated = event_of(event);
  // A late stream has yet to write the event's time.
  if (emulated != nullptr) wait_for(event);
  delete emulated;
}

void record_event(StreamHandle stream, EventHandle event) {
  EmulatedStream* const from = stream_of(stream);
  EmulatedEvent& to = *event_of(event);
  to.has_time = false;
  to.stream = nullptr;
  to.capture = nullptr;
  if (from == nullptr) {
    record_time(to);
  } else if (from->capture) {
    to.capture = from->capture;
  } else {
    give(*from, [&to] { record_time(to); });
    to.stream = from;
    to.num_given = from->num_given;
  }
}

void make_stream_wait(StreamHandle stream, EventHandle event) {
  EmulatedStream* const waiting = stream_of(stream);
  const EmulatedEvent& awaited = *event_of(event);
  CHECK(waiting != nullptr || !awaited.capture, "the default stream cannot join a capture");
  if (awaited.capture) {
    CHECK(!waiting->capture || waiting->capture == awaited.capture, "two captures met");
    waiting->capture = awaited.capture;
    return;
  }
  if (awaited.stream == nullptr) return;
  EmulatedStream* const before = awaited.stream;
  CHECK(!waiting || !waiting->capture, "a capture waits for what was not captured");
  const uint64_t num_given = awaited.num_given;
  if (waiting != nullptr) {
    give(*waiting, [before, num_given] { catch_up(*before, num_given); });
  } else {
    catch_up(*before, num_given);
  }
}

void wait_for(EventHandle event) {
  const EmulatedEvent& awaited = *event_of(event);
  if (awaited.stream != nullptr) catch_up(*awaited.stream, awaited.num_given);
}

bool is_done(EventHandle event) {
  const EmulatedEvent& asked = *event_of(event);
  if (asked.stream == nullptr || asked.stream->num_done >= asked.num_given) return true;
  // Whoever asks again and again gets there.
  catch_up(*asked.stream, asked.stream->num_done + 1);
  return false;
}

float elapsed_ms(EventHandle first, EventHandle last) {
  for (const EventHandle handle : {first, last}) {
    const EmulatedEvent& event = *event_of(handle);
    CHECK(event.kind == EventKind::kTimed, "an event without a time");
    CHECK(event.has_time, "an event that was not recorded, or is not done");
  }
  const std::chrono::duration<float, std::milli> elapsed =
      event_of(last)->time - event_of(first)->time;
  return elapsed.count();
}

void begin_capture(StreamHandle stream) {
  EmulatedStream* const emulated = stream_of(stream);
  CHECK(emulated != nullptr, "the default stream cannot capture");
  CHECK(!emulated->capture, "the stream captures already");
  emulated->capture = std::make_shared<EmulatedGraph>();
  emulated->began_capture = true;
  ++num_captures_of_thread();
}

Result<GraphHandle> end_capture(StreamHandle stream) {
  EmulatedStream* const emulated = stream_of(stream);
  CHECK(emulated != nullptr && emulated->began_capture, "the stream began no capture");
  const std::shared_ptr<EmulatedGraph> capture = std::exchange(emulated->capture, nullptr);
  emulated->began_capture = false;
  --num_captures_of_thread();
  const std::lock_guard lock(streams().mutex);
  for (EmulatedStream* other : streams().all) {
    if (other->capture == capture) other->capture = nullptr;
  }
  return GraphHandle{new EmulatedGraph(std::move(*capture))};
}

void launch_graph(StreamHandle stream, GraphHandle graph) {
  const auto* const work = static_cast<const EmulatedGraph*>(graph.native);
  CHECK(work != nullptr, "launched no graph");
  run_or_record(stream, [work] {
    for (const Work& piece : work->work) piece();
  });
}

void destroy_graph(GraphHandle graph) {
  delete static_cast<EmulatedGraph*>(graph.native);
}

}  // namespace millrace::cuda
