#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

namespace millrace {
namespace {

// What the system says of the first processor: the words of a line of /proc/cpuinfo.
std::set<std::string> cpuinfo(const std::string& name) {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name + "\t")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

bool can_run(Isa isa) {
  return std::ranges::count(supported_isas(), isa) == 1;
}

TEST(Isa, IsSupportedWhereTheSystemNamesItsInstructions) {
  const std::set<std::string> flags = cpuinfo("flags");
  if (flags.empty()) GTEST_SKIP() << "no /proc/cpuinfo, or none with flags";
  const bool has_avx2 = flags.contains("avx2") && flags.contains("fma") && flags.contains("f16c");
  const bool has_avx512 = has_avx2 && flags.contains("avx512f") && flags.contains("avx512bw") &&
                          flags.contains("avx512dq") && flags.contains("avx512vl");
  const bool has_vnni = has_avx512 && flags.contains("avx512_vnni");
  EXPECT_TRUE(can_run(Isa::kReference));
  EXPECT_EQ(can_run(Isa::kAvx2), has_avx2);
  EXPECT_EQ(can_run(Isa::kAvx512), has_avx512);
  EXPECT_EQ(can_run(Isa::kAvx512Vnni), has_vnni);
  EXPECT_EQ(can_run(Isa::kAvx512Dot), has_vnni && flags.contains("avx512_bf16"));
}

// docs/decisions/0035
TEST(Isa, IsBestWithoutProductsOfBFloat16OnIntelsProcessorsWithoutTiles) {
  const std::set<std::string> vendor = cpuinfo("vendor_id");
  if (vendor.empty()) GTEST_SKIP() << "no /proc/cpuinfo, or none with a vendor";
  EXPECT_EQ(prefers_floats(), vendor.contains("GenuineIntel"));
  EXPECT_TRUE(can_run(best_isa()));
  if (best_isa() == Isa::kAmx) return;
  const bool leaves_products = prefers_floats() && can_run(Isa::kAvx512Dot);
  const Isa most = can_run(Isa::kAvx512Dot)    ? Isa::kAvx512Dot
                   : can_run(Isa::kAvx512Vnni) ? Isa::kAvx512Vnni
                   : can_run(Isa::kAvx512)     ? Isa::kAvx512
                   : can_run(Isa::kAvx2)       ? Isa::kAvx2
                                               : Isa::kAmxReference;
  EXPECT_EQ(best_isa(), leaves_products ? Isa::kAvx512Vnni : most);
}

TEST(Isa, HasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (const Isa isa : supported_isas()) names.insert(name_of(isa));
  EXPECT_EQ(names.size(), supported_isas().size());
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace millrace
