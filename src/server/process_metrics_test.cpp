#include "server/process_metrics.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <vector>

#include "server/metrics_text.h"

namespace millrace {
namespace {

TEST(ProcessMetrics, TellOfThisProcess) {
  const ProcessMetrics metrics("1.2.3");
  const MetricsText text = parse_metrics(metrics.render({}));
  EXPECT_EQ(text.at(R"(millrace_build_info{version="1.2.3"})"), 1.0);
  EXPECT_GE(text.at("process_cpu_seconds_total"), 0.0);
  EXPECT_GT(text.at("process_resident_memory_bytes"), 1e5);
  EXPECT_GT(text.at("process_virtual_memory_bytes"), text.at("process_resident_memory_bytes"));
  const double now_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  EXPECT_LE(text.at("process_start_time_seconds"), now_s + 1.0);
  EXPECT_GT(text.at("process_start_time_seconds"), now_s - 3600.0);
  EXPECT_GE(text.at("process_max_fds"), text.at("process_open_fds"));
}

TEST(ProcessMetrics, CountOpenFiles) {
  const ProcessMetrics metrics("1.2.3");
  const double before = parse_metrics(metrics.render({})).at("process_open_fds");
  std::vector<int> fds;
  for (int i = 0; i < 10; ++i) fds.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(parse_metrics(metrics.render({})).at("process_open_fds"), before + 10.0);
  for (const int fd : fds) ::close(fd);
}

TEST(ProcessMetrics, UseTheCpuThatTheyTell) {
  const ProcessMetrics metrics("1.2.3");
  const double before = parse_metrics(metrics.render({})).at("process_cpu_seconds_total");
  const auto cpu_seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  for (const double end = cpu_seconds() + 0.05; cpu_seconds() < end;) {
  }
  EXPECT_GE(parse_metrics(metrics.render({})).at("process_cpu_seconds_total"), before + 0.02);
}

TEST(ProcessMetrics, TellOfTheHttpSide) {
  http::CountersSnapshot http;
  http.num_connections_open = 7;
  http.num_streams_open = 6;
  http.num_connections_accepted = 100;
  http.num_clients_gone = 5;
  http.num_bytes_sent = 1ULL << 40;
  http.num_responses = {{200, 90}, {503, 3}};
  const MetricsText text = parse_metrics(ProcessMetrics("1.2.3").render(http));
  EXPECT_EQ(text.at("millrace_http_connections"), 7.0);
  EXPECT_EQ(text.at("millrace_http_streams"), 6.0);
  EXPECT_EQ(text.at("millrace_http_connections_accepted_total"), 100.0);
  EXPECT_EQ(text.at("millrace_http_clients_gone_total"), 5.0);
  EXPECT_EQ(text.at("millrace_http_sent_bytes_total"), 1099511627776.0);
  EXPECT_EQ(text.at(R"(millrace_http_responses_total{status="200"})"), 90.0);
  EXPECT_EQ(text.at(R"(millrace_http_responses_total{status="503"})"), 3.0);
}

}  // namespace
}  // namespace millrace
