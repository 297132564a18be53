#include "loadgen/gpu_meter.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <utility>
#include <variant>

#include "http/unique_fd.h"

namespace millrace::bench {
namespace {

constexpr double kBytesPerMib = 1024.0 * 1024.0;
// A hundred GPUs have a few kilobytes.
constexpr size_t kOutputBytesMax = size_t{64} << 10;

std::string_view trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<double> read_number(std::string_view text) {
  double value = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_whole = error == std::errc{} && end == text.data() + text.size();
  return is_whole && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

struct Total {
  double sum = 0.0;
  int count = 0;

  void add(std::optional<double> value) {
    if (!value) return;
    sum += *value;
    ++count;
  }
  std::optional<double> scaled(double factor) const {
    return count > 0 ? std::optional(sum * factor) : std::nullopt;
  }
};

// Three fields; none: it is another line.
std::optional<std::array<std::string_view, 3>> split(std::string_view line) {
  std::array<std::string_view, 3> fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t comma = line.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == fields.size())) return std::nullopt;
    fields[i] = trimmed(line.substr(0, comma));
    line.remove_prefix(std::min(line.size(), comma + (comma == std::string_view::npos ? 0 : 1)));
  }
  return fields;
}

struct NotThere {};
struct Failed {};
using Output = std::variant<std::string, NotThere, Failed>;

// The program's output up to its end, or to the deadline.
std::optional<std::string> read_until_end(int fd, TimePoint deadline) {
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() < kOutputBytesMax) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return std::nullopt;
    pollfd entry = {.fd = fd, .events = POLLIN, .revents = 0};
    if (::poll(&entry, 1, static_cast<int>(left)) <= 0) continue;
    const ssize_t rc = ::read(fd, buffer.data(), buffer.size());
    if (rc < 0 && errno != EINTR) return std::nullopt;
    if (rc == 0) return text;
    if (rc > 0) text.append(buffer.data(), static_cast<size_t>(rc));
  }
  return std::nullopt;
}

Output run(const std::string& program, TimePoint deadline) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Failed{};
  const http::UniqueFd reading(ends[0]);
  http::UniqueFd writing(ends[1]);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, writing.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::string name = program;
  std::string query = "--query-gpu=utilization.gpu,memory.used,power.draw";
  std::string format = "--format=csv,noheader,nounits";
  std::array<char*, 4> arguments = {name.data(), query.data(), format.data(), nullptr};
  pid_t pid = 0;
  const int error =
      ::posix_spawnp(&pid, program.c_str(), &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  writing.reset();
  if (error != 0) return error == ENOENT ? Output(NotThere{}) : Output(Failed{});
  std::optional<std::string> text = read_until_end(reading.get(), deadline);
  if (!text) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!text || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return Failed{};
  return std::move(*text);
}

}  // namespace

std::optional<GpuUse> parse_gpu_lines(std::string_view csv) {
  Total utilization, memory, watts;
  int num_lines = 0;
  while (!csv.empty()) {
    const size_t end = std::min(csv.find('\n'), csv.size());
    const auto fields = split(csv.substr(0, end));
    csv.remove_prefix(std::min(end + 1, csv.size()));
    if (!fields) continue;
    ++num_lines;
    utilization.add(read_number((*fields)[0]));
    memory.add(read_number((*fields)[1]));
    watts.add(read_number((*fields)[2]));
  }
  if (num_lines == 0) return std::nullopt;
  return GpuUse{
      .utilization = utilization.scaled(0.01 / std::max(utilization.count, 1)),
      .memory_bytes = memory.scaled(kBytesPerMib),
      .watts = watts.scaled(1.0),
  };
}

GpuMeter::GpuMeter() : GpuMeter(Options{}) {}
GpuMeter::GpuMeter(Options options) : options_(std::move(options)) {}

std::optional<GpuUse> GpuMeter::read() {
  const TimePoint now = Clock::now();
  if (!is_there_) return std::nullopt;
  if (read_at_ && now - *read_at_ < options_.period) return last_;
  const Output output = run(options_.program, now + options_.timeout);
  is_there_ = !std::holds_alternative<NotThere>(output);
  const std::string* text = std::get_if<std::string>(&output);
  last_ = text == nullptr ? std::nullopt : parse_gpu_lines(*text);
  read_at_ = Clock::now();
  return last_;
}

}  // namespace millrace::bench
