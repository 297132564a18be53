// The mapping in both directions, as arithmetic: printable Latin-1 stands for itself, and the other
// 68 bytes are counted off from U+0100.
#include "text/byte_alphabet.h"

#include "text/unicode.h"

namespace millrace {
namespace {

// 0x00-0x20, 0x7F-0xA0 and 0xAD, in this order, become U+0100 and up.
constexpr uint8_t kFirstPrintable = 0x21;
constexpr uint8_t kFirstUnprintable = 0x7F;
constexpr uint8_t kLastUnprintable = 0xA0;
constexpr uint8_t kSoftHyphen = 0xAD;
constexpr char32_t kShift = 0x100;
constexpr char32_t kHighShift = kShift + kFirstPrintable;  // stands for 0x7F
constexpr char32_t kSoftHyphenCharacter = kHighShift + (kLastUnprintable - kFirstUnprintable) + 1;

}  // namespace

char32_t byte_to_character(uint8_t byte) {
  if (byte < kFirstPrintable) return kShift + byte;
  if (byte == kSoftHyphen) return kSoftHyphenCharacter;
  if (byte < kFirstUnprintable || byte > kLastUnprintable) return byte;
  return kHighShift + (byte - kFirstUnprintable);
}

std::optional<uint8_t> character_to_byte(char32_t character) {
  if (character == kSoftHyphenCharacter) return kSoftHyphen;
  if (character > kSoftHyphenCharacter) return std::nullopt;
  if (character >= kHighShift) {
    return static_cast<uint8_t>(character - kHighShift + kFirstUnprintable);
  }
  if (character >= kShift) return static_cast<uint8_t>(character - kShift);
  const auto byte = static_cast<uint8_t>(character);
  if (byte_to_character(byte) != character) return std::nullopt;
  return byte;
}

void append_byte_characters(std::string_view bytes, std::string& out) {
  for (const char c : bytes) append_utf8(byte_to_character(static_cast<uint8_t>(c)), out);
}

std::optional<std::string> bytes_of_characters(std::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const CodePoint here = decode_code_point(text, pos);
    const std::optional<uint8_t> byte = character_to_byte(here.value);
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    pos += here.num_bytes;
  }
  return bytes;
}

}  // namespace millrace
