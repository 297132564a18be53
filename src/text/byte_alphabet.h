// The alphabet of byte-level BPE: each byte is written as one printable character, so that a
// vocabulary of raw bytes can be kept as text. Source: GPT-2's encoder.py, bytes_to_unicode.
// Pure functions over a constant; callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

// The character that stands for `byte`: U+0021..U+0143.
char32_t byte_to_character(uint8_t byte);

// The byte for which `character` stands.
std::optional<uint8_t> character_to_byte(char32_t character);

// Appends the characters that stand for the bytes of `bytes`.
void append_byte_characters(std::string_view bytes, std::string& out);

// The bytes for which the characters of `text` stand; nullopt where one of them stands for none.
// REQUIRES: `text` is valid UTF-8.
std::optional<std::string> bytes_of_characters(std::string_view text);

}  // namespace millrace
