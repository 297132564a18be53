// Memory runs out at each place of submit() in turn: the request is refused, and nothing else has
// happened.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "engine/event_queue.h"
#include "engine/fake_model_runner.h"
#include "engine/intake.h"
#include "engine/step_engine.h"
#include "engine/test_stream.h"

namespace {

// How many allocations of this thread succeed until one fails; below 0: all do.
thread_local int64_t num_allocations_left = -1;

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  if (num_allocations_left >= 0 && num_allocations_left-- == 0) return nullptr;
  const std::size_t rounded = (std::max<std::size_t>(size, 1) + alignment - 1) & ~(alignment - 1);
  return std::aligned_alloc(alignment, rounded);
}

void* allocate_or_throw(std::size_t size, std::size_t alignment) {
  void* memory = allocate(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// Apart, where g++ sees no free() of what came from operator new: it does not know that this one is
// made of malloc.
[[gnu::noinline]] void release(void* memory) noexcept {
  std::free(memory);
}

constexpr std::size_t kAlignment = alignof(std::max_align_t);

}  // namespace

// All of them, so that a sanitizer finds none of its own paired with one of these.
void* operator new(std::size_t size) {
  return allocate_or_throw(size, kAlignment);
}
void* operator new[](std::size_t size) {
  return allocate_or_throw(size, kAlignment);
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, kAlignment);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, kAlignment);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return allocate_or_throw(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  release(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  release(memory);
}

namespace millrace {
namespace {

EngineRequest request_of(std::string tenant) {
  EngineRequest request{.prompt = {1, 2, 3, 4, 5}};
  request.sampling.max_tokens = 3;
  request.sampling.n = 2;
  request.sampling.stop_token_ids = {7, 8};
  request.cache_salt = "a salt that is too long for a short string";
  request.tenant = std::move(tenant);
  return request;
}

// Submits to `engine` with the k-th allocation failing, for each k until none does; the request
// that gets through, and how many did not.
std::pair<Stream, int64_t> submit_with_failures(Engine& engine) {
  for (int64_t num_failures = 0;; ++num_failures) {
    // Another name each time, so that a tenant is new each time, too.
    EngineRequest request = request_of("tenant number " + std::to_string(1000 + num_failures));
    auto queue = std::make_shared<EventQueue>(request);
    const std::weak_ptr<EventQueue> is_kept = queue;
    num_allocations_left = num_failures;
    const Result<RequestId> id = engine.submit(std::move(request), queue);
    const bool has_failed = num_allocations_left < 0;
    num_allocations_left = -1;
    if (id.ok()) {
      EXPECT_FALSE(has_failed) << "accepted although memory ran out";
      return {Stream{*id, std::move(queue)}, num_failures};
    }
    EXPECT_EQ(id.error().code, ErrorCode::kResourceExhausted);
    queue.reset();
    EXPECT_TRUE(is_kept.expired()) << "failure " << num_failures << " kept the sink";
    const EngineStats stats = engine.stats();
    EXPECT_EQ(stats.num_live_seqs, 0);
    EXPECT_EQ(stats.num_queued_seqs, 0);
    EXPECT_EQ(stats.working_since, std::nullopt);
    EXPECT_EQ(stats.num_refused[index_of(RefusalReason::kMemory)], num_failures + 1);
    // A request that was half let in would be left over, or take this one's place.
    EXPECT_EQ(submit(engine, request_of("")).finish(2).size(), 2U);
  }
}

TEST(IntakeMemory, EachFailedAllocationRefusesOneRequestAndTouchesNoOther) {
  const auto engine = StepEngine::start(
      std::make_unique<FakeModelRunner>(FakeModelRunner::Options{}),
      {.max_num_live_seqs = 2, .n_max = 2}
  );
  ASSERT_TRUE(engine.ok());
  auto [stream, num_failures] = submit_with_failures(**engine);
  EXPECT_GT(num_failures, 4) << "so many things are made for a request at least";
  EXPECT_EQ(stream.finish(2).size(), 2U);
  (*engine)->shutdown(ShutdownMode::kDrain);
  EXPECT_EQ((*engine)->stats().num_live_seqs, 0);
}

TEST(IntakeMemory, TheQueueOfCommandsMayBeWhatFails) {
  // Only every so many pushes allocate; here each submission is one, and nobody takes them out.
  Intake intake(
      {.max_model_len = 100, .block_size = 16, .num_blocks = 10},
      {.vocab_size = 10,
       .num_sequence_tokens_max = 100,
       .n_max = 2,
       .max_num_seqs = 1,
       .max_num_live_seqs = 1000},
      0
  );
  EngineStats stats;
  for (int32_t num_accepted = 0; num_accepted < 100;) {
    EngineRequest request = request_of("t");
    auto queue = std::make_shared<EventQueue>(request);
    // The last allocation of a submission that allocates one more than the others.
    for (int64_t allowed = 0;; ++allowed) {
      EngineRequest copy = request;
      num_allocations_left = allowed;
      const bool is_accepted = intake.submit(std::move(copy), queue).ok();
      num_allocations_left = -1;
      if (is_accepted) break;
      intake.fill(stats);
      ASSERT_EQ(stats.num_live_seqs, 2 * num_accepted);
      ASSERT_EQ(queue.use_count(), 1);
    }
    ++num_accepted;
    intake.fill(stats);
    ASSERT_EQ(stats.num_live_seqs, 2 * num_accepted);
  }
  for (int32_t i = 0; i < 100; ++i) {
    const std::optional<Intake::Command> command = intake.try_pop();
    ASSERT_TRUE(command);
    EXPECT_EQ(std::get<Intake::Submission>(*command).request.id, RequestId{uint64_t(i)});
  }
  EXPECT_FALSE(intake.try_pop());
}

}  // namespace
}  // namespace millrace
