#include "server/process_metrics.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/metrics.h"

namespace millrace {
namespace {

// Of proc(5), /proc/pid/stat: the numbers that follow the state, which is the third field.
struct ProcessStat {
  uint64_t user_ticks = 0;
  uint64_t system_ticks = 0;
  uint64_t start_ticks = 0;  // since boot
  uint64_t virtual_bytes = 0;
  uint64_t resident_pages = 0;
};

std::optional<std::string> read_proc_file(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string text(4096, '\0');  // a stat file has some 300 bytes
  const ssize_t num_bytes = ::read(fd, text.data(), text.size());
  ::close(fd);
  if (num_bytes <= 0) return std::nullopt;
  text.resize(static_cast<size_t>(num_bytes));
  return text;
}

// The second field, the program's name, may hold anything: what counts begins after its last ')'.
std::optional<ProcessStat> read_stat() {
  const std::optional<std::string> text = read_proc_file("/proc/self/stat");
  if (!text) return std::nullopt;
  const size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(*text).substr(name_end + 1);
  ProcessStat stat;
  for (int field = 3; !rest.empty() && field <= 24; ++field) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const size_t size = std::min(rest.find(' '), rest.size());
    uint64_t value = 0;
    std::from_chars(rest.data(), rest.data() + size, value);
    rest.remove_prefix(size);
    if (field == 14) stat.user_ticks = value;
    if (field == 15) stat.system_ticks = value;
    if (field == 22) stat.start_ticks = value;
    if (field == 23) stat.virtual_bytes = value;
    if (field == 24) stat.resident_pages = value;
  }
  return stat;
}

double ticks_to_seconds(uint64_t ticks) {
  return static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

double read_clock(clockid_t clock) {
  timespec time = {};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::optional<double> read_start_time() {
  const std::optional<ProcessStat> stat = read_stat();
  if (!stat) return std::nullopt;
  const double age_s = read_clock(CLOCK_BOOTTIME) - ticks_to_seconds(stat->start_ticks);
  return read_clock(CLOCK_REALTIME) - age_s;
}

// Since Linux 6.2 the size of the folder is the number of its files; before, they are counted.
std::optional<int64_t> count_open_fds() {
  constexpr const char* kFolder = "/proc/self/fd";
  struct stat status = {};
  if (::stat(kFolder, &status) != 0) return std::nullopt;
  if (status.st_size > 0) return status.st_size;
  std::error_code error;
  int64_t count = 0;
  auto next = std::filesystem::directory_iterator(kFolder, error);
  for (; !error && next != std::filesystem::directory_iterator(); next.increment(error)) ++count;
  if (error) return std::nullopt;
  return count - 1;  // the one that reads
}

void write_process(std::optional<double> start_time_s, MetricsWriter& w) {
  if (const std::optional<ProcessStat> stat = read_stat()) {
    const auto page_bytes = static_cast<double>(::sysconf(_SC_PAGESIZE));
    w.family(
        "process_cpu_seconds_total", MetricType::kCounter, "User and system time spent, in seconds."
    );
    w.sample(ticks_to_seconds(stat->user_ticks + stat->system_ticks));
    w.gauge(
        "process_virtual_memory_bytes",
        "Virtual memory size.",
        static_cast<double>(stat->virtual_bytes)
    );
    w.gauge(
        "process_resident_memory_bytes",
        "Resident memory size.",
        static_cast<double>(stat->resident_pages) * page_bytes
    );
  }
  if (start_time_s) {
    w.gauge("process_start_time_seconds", "Start of the process, Unix time.", *start_time_s);
  }
  if (const std::optional<int64_t> count = count_open_fds()) {
    w.gauge("process_open_fds", "Open file descriptors.", static_cast<double>(*count));
  }
  rlimit limit = {};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    w.gauge("process_max_fds", "Most open file descriptors.", static_cast<double>(limit.rlim_cur));
  }
}

void write_http(const http::CountersSnapshot& http, MetricsWriter& w) {
  const auto gauge = [&w](std::string_view name, std::string_view help, uint64_t value) {
    w.family(name, MetricType::kGauge, help);
    w.sample(static_cast<int64_t>(value));
  };
  const auto counter = [&w](std::string_view name, std::string_view help, uint64_t value) {
    w.counter(name, help, static_cast<int64_t>(value));
  };
  gauge("millrace_http_connections", "Connections that are open.", http.num_connections_open);
  gauge("millrace_http_streams", "Streamed answers under way.", http.num_streams_open);
  counter(
      "millrace_http_connections_accepted_total",
      "Connections accepted.",
      http.num_connections_accepted
  );
  counter(
      "millrace_http_connections_surplus_total",
      "Connections accepted only to be refused: beyond the maximum, or out of descriptors.",
      http.num_surplus_connections
  );
  counter(
      "millrace_http_accept_pauses_total",
      "How often accepting paused for want of descriptors or memory.",
      http.num_accept_pauses
  );
  counter(
      "millrace_http_clients_gone_total",
      "Clients that left before their answer was finished.",
      http.num_clients_gone
  );
  counter("millrace_http_streams_cut_total", "Streams cut: read too slowly.", http.num_streams_cut);
  counter(
      "millrace_http_timeouts_total",
      "Timeouts of a request's head or body, or of writing its answer.",
      http.num_timeouts
  );
  counter("millrace_http_received_bytes_total", "Bytes received.", http.num_bytes_received);
  counter("millrace_http_sent_bytes_total", "Bytes sent.", http.num_bytes_sent);
  w.family("millrace_http_responses_total", MetricType::kCounter, "Answers, by status.");
  for (const auto& [status, count] : http.num_responses) {
    w.sample(static_cast<int64_t>(count), {{"status", std::to_string(status)}});
  }
}

}  // namespace

ProcessMetrics::ProcessMetrics(std::string version)
    : version_(std::move(version)), start_time_s_(read_start_time()) {}

std::string ProcessMetrics::render(const http::CountersSnapshot& http) const {
  MetricsWriter writer;
  writer.family("millrace_build_info", MetricType::kGauge, "The build, in labels; the value is 1.");
  writer.sample(int64_t{1}, {{"version", version_}});
  write_process(start_time_s_, writer);
  write_http(http, writer);
  return writer.take();
}

}  // namespace millrace
