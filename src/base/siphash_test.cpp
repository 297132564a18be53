// Against OpenSSL 3: openssl mac -macopt hexkey:000102030405060708090a0b0c0d0e0f -macopt size:16
// SIPHASH, over the bytes 00 01 .. (n - 1). The first is also the first of the authors' own
// vectors.
#include "base/siphash.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace millrace {
namespace {

std::string hex_of_count(size_t num_bytes) {
  constexpr SipKey kKey{.low = 0x0706050403020100, .high = 0x0f0e0d0c0b0a0908};
  std::vector<uint8_t> bytes(num_bytes);
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  const Hash128 hash = siphash128(kKey, std::as_bytes(std::span(bytes)));
  std::string text;
  for (const uint64_t word : {hash.low, hash.high}) {
    for (int shift = 0; shift < 64; shift += 8) text += fmt::format("{:02X}", word >> shift & 0xff);
  }
  return text;
}

TEST(SipHash, GivesWhatOpenSslGives) {
  const std::pair<size_t, std::string> vectors[] = {
      {0, "A3817F04BA25A8E66DF67214C7550293"},
      {1, "DA87C1D86B99AF44347659119B22FC45"},
      {7, "A1F1EBBED8DBC153C0B84AA61FF08239"},
      {8, "3B62A9BA6258F5610F83E264F31497B4"},
      {15, "5493E99933B0A8117E08EC0F97CFC3D9"},
      {16, "6EE2A4CA67B054BBFD3315BF85230577"},
      {63, "5150D1772F50834A503E069A973FBD7C"},
  };
  for (const auto& [num_bytes, hex] : vectors) {
    EXPECT_EQ(hex_of_count(num_bytes), hex) << num_bytes << " bytes";
  }
}

TEST(SipHash, DependsOnBothHalvesOfItsKey) {
  const Hash128 hash = siphash128({.low = 1, .high = 2}, {});
  EXPECT_NE(hash, siphash128({.low = 1, .high = 3}, {}));
  EXPECT_NE(hash, siphash128({.low = 0, .high = 2}, {}));
}

}  // namespace
}  // namespace millrace
