#include "bench/environment.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "base/thread_pool.h"

namespace millrace::bench {
namespace {

// Four times what a large server's core has of last-level cache.
constexpr size_t kBytesPerThread = size_t{128} << 20;
constexpr int kNumPasses = 5;

// Eight sums, so that the loop waits for memory and not for an addition.
uint64_t sum(const std::vector<uint64_t>& words) {
  uint64_t sums[8] = {};
  for (size_t i = 0; i + 8 <= words.size(); i += 8) {
    for (size_t k = 0; k < 8; ++k) sums[k] += words[i + k];
  }
  uint64_t total = 0;
  for (const uint64_t part : sums) total += part;
  return total;
}

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("-_./:=,%+@").find(c) != std::string_view::npos;
}

}  // namespace

std::string cpu_model_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return {};
}

std::string short_cpu_name(const std::string& model_name) {
  // The word with digits in it is the model's number: "Intel(R) Xeon(R) Platinum 8480+ @ 2.0GHz".
  std::string word;
  for (const char c : model_name + " ") {
    if (c != ' ') {
      word += c;
      continue;
    }
    const bool has_digit =
        std::ranges::any_of(word, [](unsigned char digit) { return std::isdigit(digit) != 0; });
    if (has_digit) return word;
    word.clear();
  }
  return model_name;
}

std::vector<std::pair<std::string, std::string>> environment(const std::string& command) {
  std::vector<std::pair<std::string, std::string>> facts;
  if (std::string cpu = cpu_model_name(); !cpu.empty()) facts.emplace_back("cpu", std::move(cpu));
  facts.emplace_back("cores", std::to_string(num_available_cpus()));
  struct sysinfo memory {};
  if (::sysinfo(&memory) == 0) {
    const double bytes = static_cast<double>(memory.totalram) * memory.mem_unit;
    facts.emplace_back("memory", fmt::format("{:.1f} GiB", bytes / 0x1p30));
  }
  struct utsname kernel {};
  if (::uname(&kernel) == 0) {
    facts.emplace_back("kernel", fmt::format("{} {}", kernel.sysname, kernel.release));
  }
  double load = 0.0;
  if (::getloadavg(&load, 1) == 1) facts.emplace_back("load before", fmt::format("{:.2f}", load));
  facts.emplace_back("millrace", MILLRACE_VERSION);
  facts.emplace_back("command", command);
  return facts;
}

double measure_memory_read_bandwidth(size_t num_threads) {
  std::vector<std::vector<uint64_t>> buffers(num_threads);
  std::atomic<uint64_t> checksum = 0;  // so that nobody leaves the reading out
  double best = 0.0;
  const auto on_all = [&](auto&& work) {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < num_threads; ++t) threads.emplace_back([&work, t] { work(t); });
  };
  on_all([&](size_t t) { buffers[t].assign(kBytesPerThread / sizeof(uint64_t), t + 1); });
  for (int pass = 0; pass < kNumPasses; ++pass) {
    const TimePoint start = Clock::now();
    on_all([&](size_t t) { checksum += sum(buffers[t]); });
    const double seconds = to_seconds(Clock::now() - start);
    best = std::max(best, static_cast<double>(num_threads * kBytesPerThread) / seconds);
  }
  return checksum.load() == 0 ? 0.0 : best;
}

std::string command_text(const std::string& name, const std::vector<std::string>& arguments) {
  std::string text = name;
  for (const std::string& argument : arguments) {
    text += ' ';
    if (!argument.empty() && std::ranges::all_of(argument, is_plain)) {
      text += argument;
      continue;
    }
    text += '\'';
    for (const char c : argument) {
      if (c == '\'') {
        text += "'\\''";
      } else {
        text += c;
      }
    }
    text += '\'';
  }
  return text;
}

}  // namespace millrace::bench
