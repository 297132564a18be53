// Where a benchmark ran: what a reader of its figures wants to know of this machine.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace millrace::bench {

// "cpu", "cores", "memory", "kernel", "millrace", "command". What cannot be found out is not there.
std::vector<std::pair<std::string, std::string>> environment(const std::string& command);

// The processor's name without its maker's adornments: "AMD EPYC 9K84" as "9K84", which is how the
// published grid prints it.
std::string short_cpu_name(const std::string& model_name);

// Of /proc/cpuinfo; empty: it does not say.
std::string cpu_model_name();

// As it was typed, with quotes as far as a shell needs them, but for secrets: "***" stands for the
// values of --api-key and of headers, and for the user in a URL.
std::string command_text(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace millrace::bench
