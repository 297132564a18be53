#include "text/unicode.h"

#include <gtest/gtest.h>

#include "text/byte_alphabet.h"

namespace millrace {
namespace {

std::string lossy(std::string_view bytes) {
  std::string out;
  EXPECT_EQ(append_utf8_lossy(bytes, true, out), 0U);
  return out;
}

std::string normalize(std::string_view text, NormalizationForm form) {
  std::string out;
  size_t kept = 0;
  for (const NormalizedSpan& span : normalize_spans(text, form)) {
    out.append(text.substr(kept, span.source.begin - kept));
    out.append(span.text);
    kept = span.source.end;
  }
  return out.append(text.substr(kept));
}

TEST(Utf8, EveryScalarValueSurvivesEncodingAndDecoding) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text;
    append_utf8(c, text);
    ASSERT_TRUE(is_valid_utf8(text));
    const CodePoint read = decode_code_point(text, 0);
    ASSERT_EQ(read.value, c);
    ASSERT_EQ(read.num_bytes, text.size());
    ASSERT_EQ(previous_code_point_size(text, text.size()), text.size());
  }
}

TEST(Utf8, ReplacesMaximalPartsAsRustDoes) {
  const std::string u(kReplacementCharacter);
  EXPECT_EQ(lossy("ok \xC3\xA9"), "ok \xC3\xA9");
  EXPECT_EQ(lossy("\x80"), u);
  EXPECT_EQ(lossy("\xC0\xAF"), u + u);  // overlong: neither byte begins anything
  EXPECT_EQ(lossy("\xE2\x82"), u);      // one truncated character
  EXPECT_EQ(lossy("\xE2\x82x"), u + "x");
  EXPECT_EQ(lossy("\xED\xA0\x80"), u + u + u);  // a surrogate
  EXPECT_EQ(lossy("\xF0\x9F\x98\xF0\x9F\x98\x80"), u + "\xF0\x9F\x98\x80");
  EXPECT_EQ(lossy("\xF4\x90\x80\x80"), u + u + u + u);  // above U+10FFFF
  EXPECT_EQ(lossy("\xF5\xFF"), u + u);
}

TEST(Utf8, HoldsBackOnlyAnIncompleteEnd) {
  std::string out;
  EXPECT_EQ(append_utf8_lossy("a\xF0\x9F\x98", false, out), 3U);
  EXPECT_EQ(out, "a");
  EXPECT_EQ(append_utf8_lossy("b\xF0\x28", false, out), 0U);
  EXPECT_EQ(out, "ab\xEF\xBF\xBD(");
}

TEST(CodePointClasses, KnowsLettersNumbersSpacesAndMarks) {
  const CodePointClasses& table = CodePointClasses::table();
  using C = CodePointClass;
  EXPECT_EQ(table.of('a'), C::kLetter | C::kWord | C::kNfcSafe);
  EXPECT_EQ(table.of('7'), C::kNumber | C::kNumeric | C::kWord | C::kNfcSafe);
  EXPECT_EQ(table.of(' '), C::kSpace | C::kNfcSafe);
  EXPECT_EQ(table.of('!'), C::kPunctuation | C::kNfcSafe);
  EXPECT_EQ(table.of(0x301) & (C::kMark | C::kNfcSafe | C::kLetter), C::kMark);
  EXPECT_EQ(table.of(0x4E00) & C::kLetter, C::kLetter);
  EXPECT_EQ(table.of(0xBD) & C::kNumber, C::kNumber);  // one half
  EXPECT_EQ(table.of(0x180E) & C::kSpace, 0);          // no white space since Unicode 6.3
  EXPECT_EQ(table.of(0x3000) & C::kSpace, C::kSpace);
  EXPECT_EQ(table.of(0x10FFFF), C::kNfcSafe);
  for (uint8_t c = 0; c < 128; ++c) EXPECT_EQ(table.of_ascii(c), table.of(c));
}

TEST(Normalization, ComposesDecomposesAndReorders) {
  using F = NormalizationForm;
  EXPECT_EQ(normalize("e\xCC\x81", F::kNfc), "\xC3\xA9");
  EXPECT_EQ(normalize("\xC3\xA9", F::kNfd), "e\xCC\x81");
  EXPECT_EQ(normalize("\xEF\xAC\x81x", F::kNfkc), "fix");
  EXPECT_EQ(normalize("\xEF\xAC\x81x", F::kNfc), "\xEF\xAC\x81x");
  EXPECT_EQ(normalize("\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8", F::kNfc), "\xEA\xB0\x81");
  // U+0323 (below) moves before U+0307 (above), and composes with the s before it.
  EXPECT_EQ(normalize("s\xCC\x87\xCC\xA3", F::kNfc), "\xE1\xB9\xA9");
  EXPECT_EQ(normalize("plain \xE4\xBD\xA0", F::kNfc), "plain \xE4\xBD\xA0");
  EXPECT_TRUE(normalize_spans("plain \xE4\xBD\xA0 caf\xC3\xA9", F::kNfc).empty());
}

TEST(Normalization, LeavesYoungCodePointsInertAsTheReferenceDoes) {
  // U+1ABF (Unicode 13, a mark below) neither moves nor lets U+0301 pass.
  const std::string text = "a\xE1\xAA\xBF\xCC\x81";
  EXPECT_EQ(normalize(text, NormalizationForm::kNfc), text);
  EXPECT_EQ(normalize(text, NormalizationForm::kNfd), text);
}

// Ordering the marks by insertion took time in the square of their number.
TEST(Normalization, TakesLongRunsOfMarks) {
  std::string marks = "a";
  for (int i = 0; i < 500'000; ++i) marks += i % 2 == 0 ? "\xCC\x81" : "\xCC\xA3";
  const std::string out = normalize(marks, NormalizationForm::kNfc);
  EXPECT_TRUE(is_valid_utf8(out));
  EXPECT_EQ(normalize(out, NormalizationForm::kNfc), out);
}

TEST(Lowercase, UsesTheFullMapping) {
  std::string out;
  for (const char32_t c : {U'A', U'\u00C9', U'\u0130', U'\u1E9E', U'1'}) append_lowercase(c, out);
  EXPECT_EQ(
      out,
      "a\xC3\xA9i\xCC\x87\xC3\x9F"
      "1"
  );
}

TEST(ByteAlphabet, IsABijectionOnPrintableCharacters) {
  for (int byte = 0; byte < 256; ++byte) {
    const char32_t c = byte_to_character(static_cast<uint8_t>(byte));
    EXPECT_GT(c, 0x20U);
    EXPECT_EQ(character_to_byte(c), static_cast<uint8_t>(byte));
  }
  EXPECT_EQ(byte_to_character(' '), U'\u0120');
  EXPECT_EQ(byte_to_character('\n'), U'\u010A');
  EXPECT_EQ(byte_to_character(0xAD), U'\u0143');
  EXPECT_EQ(character_to_byte(U' '), std::nullopt);
  EXPECT_EQ(character_to_byte(U'\u0144'), std::nullopt);
  EXPECT_EQ(character_to_byte(U'\u00AD'), std::nullopt);
  EXPECT_EQ(
      bytes_of_characters("\xC4\xA0"
                          "a"),
      " a"
  );
  EXPECT_EQ(bytes_of_characters("a b"), std::nullopt);
}

}  // namespace
}  // namespace millrace
