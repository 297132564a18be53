#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>
#include <vector>

namespace millrace {
namespace {

TEST(ThreadPool, CoversEachIndexOnce) {
  for (const size_t num_threads : {1UL, 2UL, 3UL, 8UL}) {
    ThreadPool pool(num_threads);
    for (const size_t size : {0UL, 1UL, 2UL, 7UL, 8UL, 1000UL}) {
      std::vector<int> hits(size, 0);
      pool.parallel_for(size, [&](size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) ++hits[i];
      });
      EXPECT_EQ(hits, std::vector<int>(size, 1)) << num_threads << " threads, size " << size;
    }
  }
}

TEST(ThreadPool, PiecesCoverEachIndexOnce) {
  for (const size_t num_threads : {1UL, 2UL, 3UL, 8UL}) {
    ThreadPool pool(num_threads);
    for (const size_t size : {0UL, 1UL, 2UL, 7UL, 64UL, 1000UL}) {
      for (const size_t piece_min : {1UL, 5UL, 2000UL}) {
        std::vector<std::atomic<int>> hits(size);
        pool.parallel_pieces(size, piece_min, [&](size_t thread, size_t begin, size_t end) {
          EXPECT_LT(begin, end);
          EXPECT_LT(thread, num_threads);
          for (size_t i = begin; i < end; ++i) ++hits[i];
        });
        for (const std::atomic<int>& hit : hits) EXPECT_EQ(hit, 1);
      }
    }
  }
}

TEST(ThreadPool, TakesThePiecesOfThreadsThatAreLate) {
  ThreadPool pool(2);
  std::atomic<size_t> num_done = 0;
  pool.parallel_pieces(64, 1, [&](size_t thread, size_t begin, size_t end) {
    // The first piece of thread 0, three quarters of its half, ends after all others.
    const bool is_late = thread == 0 && begin == 0;
    while (is_late && num_done < 40) std::this_thread::yield();
    num_done += end - begin;
  });
  EXPECT_EQ(num_done, 64);
}

TEST(Asking, BeginsWithTheThreadsPartAndEndsWithIt) {
  const std::vector<char> memory(7000);
  Asking asking;
  EXPECT_TRUE(asking.is_done());
  // Units 2 and 3 of seven.
  const ReadSoon read = {.data = memory.data(), .num_units = 7, .unit_bytes = 1000};
  asking.update(read, 1, 1, 3);
  EXPECT_EQ(asking.next(), memory.data() + 2000);
  size_t num_asked = 0;
  for (; !asking.is_done(); ++num_asked) asking.ask_some();
  EXPECT_EQ(num_asked, 8);  // of 256 bytes each
  asking.update(read, 1, 1, 3);
  EXPECT_TRUE(asking.is_done()) << "asked twice for the same";
  asking.update(read, 2, 0, 3);
  EXPECT_EQ(asking.next(), memory.data());
}

TEST(Asking, EndsAfter256KiB) {
  const std::vector<char> memory(size_t{2} << 20);
  Asking asking;
  asking.update({.data = memory.data(), .num_units = 2, .unit_bytes = size_t{1} << 20}, 1, 0, 2);
  size_t num_asked = 0;
  for (; !asking.is_done(); ++num_asked) asking.ask_some();
  EXPECT_EQ(num_asked, 1024);
}

TEST(ThreadPool, WhatIsReadSoonMayBeAnythingAndChangesNothing) {
  const std::vector<char> memory(size_t{3} << 20);
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address where nothing is
  const void* const nowhere = reinterpret_cast<const void*>(uintptr_t{64});
  const ReadSoon reads[] = {
      {.data = memory.data(), .num_units = 3, .unit_bytes = size_t{1} << 20},  // above the most
      {.data = memory.data(), .num_units = 7, .unit_bytes = 100},
      {.data = memory.data(), .num_units = 1, .unit_bytes = 1},  // fewer than threads
      {.data = nowhere, .num_units = 64, .unit_bytes = 4096},
      {},
  };
  for (const size_t num_threads : {1UL, 2UL, 3UL}) {
    ThreadPool pool(num_threads);
    std::vector<int> hits(64, 0);
    int num_phases = 0;
    for (const ReadSoon& read : reads) {
      pool.read_soon(read);
      for (int phase = 0; phase < 100; ++phase, ++num_phases) {
        pool.parallel_for(hits.size(), [&](size_t begin, size_t end) {
          for (size_t i = begin; i < end; ++i) ++hits[i];
        });
      }
    }
    EXPECT_EQ(hits, std::vector<int>(64, num_phases)) << num_threads << " threads";
  }
}

TEST(ThreadPool, FinishesEachPhaseBeforeTheNext) {
  ThreadPool pool(4);
  std::vector<uint64_t> values(64, 1);
  for (int phase = 0; phase < 5000; ++phase) {
    pool.parallel_for(values.size(), [&](size_t begin, size_t end) {
      for (size_t i = begin; i < end; ++i) values[i] = values[i] * 3 + 1;
    });
    pool.parallel_for(values.size(), [&](size_t begin, size_t end) {
      // Each part reads what another thread wrote in the phase before.
      for (size_t i = begin; i < end; ++i) EXPECT_EQ(values[i], values[values.size() - 1 - i]);
    });
  }
}

TEST(ThreadPool, UsesNoCpuWhenIdle) {
  ThreadPool pool(4);
  pool.parallel_for(4, [](size_t, size_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double cpu_seconds = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  EXPECT_LT(cpu_seconds, 0.05);
}

}  // namespace
}  // namespace millrace
