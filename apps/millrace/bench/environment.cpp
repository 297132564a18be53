#include "bench/environment.h"

#include <fmt/format.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "base/available.h"

namespace millrace::bench {
namespace {

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("-_./:=,%+@").find(c) != std::string_view::npos;
}

constexpr std::string_view kHidden = "***";

// The value of a flag without what is secret in it; none: nothing is.
std::optional<std::string> hidden_value(std::string flag, const std::string& value) {
  std::ranges::replace(flag, '_', '-');
  if (flag == "--api-key") return std::string(kHidden);
  if (flag != "--header") return std::nullopt;
  const size_t equals = value.find('=');  // which header it is may be said
  return equals == std::string::npos ? std::string(kHidden)
                                     : value.substr(0, equals + 1).append(kHidden);
}

// "http://user:password@host" as "http://***@host".
std::string without_user(std::string argument) {
  const size_t mark = argument.find("://");
  if (mark == std::string::npos) return argument;
  const size_t start = mark + 3;
  const size_t end = std::min(argument.find('/', start), argument.size());
  const size_t at = argument.substr(start, end - start).rfind('@');
  return at == std::string::npos ? argument : argument.replace(start, at, kHidden);
}

// `previous`: the argument before it, which may be the flag whose value it is.
std::string without_secrets(const std::string& argument, const std::string& previous) {
  if (auto hidden = hidden_value(previous, argument)) return *std::move(hidden);
  const size_t equals = argument.find('=');
  if (equals != std::string::npos) {
    const auto hidden = hidden_value(argument.substr(0, equals), argument.substr(equals + 1));
    if (hidden) return argument.substr(0, equals + 1) + *hidden;
  }
  return without_user(argument);
}

std::string quoted(const std::string& argument) {
  if (!argument.empty() && std::ranges::all_of(argument, is_plain)) return argument;
  std::string text = "'";
  for (const char c : argument) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return text + "'";
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

std::string command_text(const std::string& name, const std::vector<std::string>& arguments) {
  std::string text = name;
  std::string previous;
  for (const std::string& argument : arguments) {
    text += ' ' + quoted(without_secrets(argument, previous));
    previous = argument;
  }
  return text;
}

}  // namespace millrace::bench
