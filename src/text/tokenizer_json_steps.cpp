// Normalizers, pre-tokenizers, decoders and post-processors of a tokenizer.json.
#include "text/tokenizer_json_steps.h"

#include <array>
#include <utility>

#include "text/unicode.h"

namespace millrace {
namespace {

// A sequence nests no deeper than the JSON parser lets it; this bounds how wide it may be.
constexpr size_t kNumStepsMax = 1000;

Result<std::string> type_of(const JsonNode& node) {
  return node.string_member("type");
}

Error unknown_type(const JsonNode& node, std::string_view what, std::string_view type) {
  return node.unsupported_here(
      fmt::format("is the {} \"{}\", which is not offered", what, type.substr(0, 60))
  );
}

// {"String": ...} or {"Regex": ...}.
Result<TextPattern> read_pattern(const JsonNode& step) {
  Result<JsonNode> node = step.require("pattern");
  if (!node) return node.error();
  if (const std::optional<JsonNode> literal = node->member("String")) {
    Result<std::string_view> text = literal->string();
    if (!text) return text.error();
    Result<TextPattern> pattern = TextPattern::literal(std::string(*text));
    if (!pattern) return literal->wrap(pattern.error());
    return pattern;
  }
  const std::optional<JsonNode> regex = node->member("Regex");
  if (!regex) return node->error("is neither a \"String\" nor a \"Regex\"");
  Result<std::string_view> text = regex->string();
  if (!text) return text.error();
  Result<TextPattern> pattern = TextPattern::regex(*text);
  if (!pattern) return regex->wrap(pattern.error());
  return pattern;
}

Result<SplitBehavior> read_behavior(const JsonNode& step, std::optional<SplitBehavior> absent) {
  const std::optional<JsonNode> node = step.member("behavior");
  if (!node && absent) return *absent;
  if (!node) return step.error("lacks \"behavior\"");
  Result<std::string_view> name = node->string();
  if (!name) return name.error();
  constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames = {{
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous},
  }};
  for (const auto& [known, behavior] : kNames) {
    if (*name == known) return behavior;
  }
  return node->error("is not a known behavior");
}

// A string of exactly one character.
Result<std::string> read_character(const JsonNode& step, std::string_view member) {
  Result<std::string> text = step.string_member(member);
  if (!text) return text.error();
  if (text->empty() || decode_code_point(*text, 0).num_bytes != text->size()) {
    return step.error(fmt::format("has a \"{}\" that is not one character", member));
  }
  return text;
}

// Calls `read(child)` for each element of the array `member`, in order.
template <class Read>
Result<void> read_each(const JsonNode& node, std::string_view member, Read read) {
  Result<JsonNode> list = node.require(member);
  if (!list) return list.error();
  Result<const json::array*> elements = list->array();
  if (!elements) return elements.error();
  for (size_t i = 0; i < (*elements)->size(); ++i) {
    Result<void> done = read(list->element(i));
    if (!done) return done;
  }
  return {};
}

template <class Step>
Result<void> append_step(const JsonNode& node, Result<Step> step, auto& steps) {
  if (!step) return step.error();
  if (steps.size() >= kNumStepsMax) {
    return node.error(fmt::format("is one step more than {}", kNumStepsMax));
  }
  steps.push_back(*std::move(step));
  return {};
}

// --- normalizers

Result<NormalizerStep> read_strip(const JsonNode& node) {
  Result<bool> left = node.bool_member("strip_left", true);
  if (!left) return left.error();
  Result<bool> right = node.bool_member("strip_right", true);
  if (!right) return right.error();
  return NormalizerStep(StripStep{.left = *left, .right = *right});
}

Result<NormalizerStep> read_replace(const JsonNode& node) {
  Result<TextPattern> pattern = read_pattern(node);
  if (!pattern) return pattern.error();
  Result<std::string> content = node.string_member("content");
  if (!content) return content.error();
  return NormalizerStep(ReplaceStep{*std::move(pattern), *std::move(content)});
}

Result<NormalizerStep> read_prepend(const JsonNode& node) {
  Result<std::string> text = node.string_member("prepend");
  if (!text) return text.error();
  return NormalizerStep(PrependStep{*std::move(text)});
}

Result<NormalizerStep> read_normalizer_step(const JsonNode& node, std::string_view type) {
  if (type == "NFC") return NormalizerStep(NormalizationForm::kNfc);
  if (type == "NFD") return NormalizerStep(NormalizationForm::kNfd);
  if (type == "NFKC") return NormalizerStep(NormalizationForm::kNfkc);
  if (type == "NFKD") return NormalizerStep(NormalizationForm::kNfkd);
  if (type == "Lowercase") return NormalizerStep(LowercaseStep{});
  if (type == "Strip") return read_strip(node);
  if (type == "Replace") return read_replace(node);
  if (type == "Prepend") return read_prepend(node);
  return unknown_type(node, "normalizer", type);
}

Result<void> append_normalizer(const JsonNode& node, std::vector<NormalizerStep>& steps) {
  Result<std::string> type = type_of(node);
  if (!type) return type.error();
  if (*type != "Sequence") return append_step(node, read_normalizer_step(node, *type), steps);
  return read_each(node, "normalizers", [&](const JsonNode& child) {
    return append_normalizer(child, steps);
  });
}

// --- pre-tokenizers

Result<PreTokenizerStep> read_split(const JsonNode& node) {
  Result<TextPattern> pattern = read_pattern(node);
  if (!pattern) return pattern.error();
  Result<SplitBehavior> behavior = read_behavior(node, std::nullopt);
  if (!behavior) return behavior.error();
  Result<bool> invert = node.bool_member("invert", false);
  if (!invert) return invert.error();
  return PreTokenizerStep(SplitStep{*std::move(pattern), *behavior, *invert});
}

Result<PreTokenizerStep> read_byte_level(const JsonNode& node) {
  Result<bool> add_prefix_space = node.bool_member("add_prefix_space", true);
  if (!add_prefix_space) return add_prefix_space.error();
  Result<bool> use_regex = node.bool_member("use_regex", true);
  if (!use_regex) return use_regex.error();
  return PreTokenizerStep(ByteLevelStep{*add_prefix_space, *use_regex});
}

Result<MetaspaceStep> read_metaspace(const JsonNode& node) {
  using Scheme = MetaspaceStep::PrependScheme;
  Result<std::string> replacement = read_character(node, "replacement");
  if (!replacement) return replacement.error();
  MetaspaceStep step{.replacement = *std::move(replacement)};
  if (const std::optional<JsonNode> scheme = node.member("prepend_scheme")) {
    Result<std::string_view> name = scheme->string();
    if (!name) return name.error();
    if (*name == "never") {
      step.prepend_scheme = Scheme::kNever;
    } else if (*name == "first") {
      step.prepend_scheme = Scheme::kFirst;
    } else if (*name != "always") {
      return scheme->error("is none of \"always\", \"first\" and \"never\"");
    }
  }
  Result<bool> add_prefix_space = node.bool_member("add_prefix_space", true);
  if (!add_prefix_space) return add_prefix_space.error();
  if (!*add_prefix_space && step.prepend_scheme != Scheme::kNever) {
    return node.error("has an \"add_prefix_space\" that contradicts its \"prepend_scheme\"");
  }
  Result<bool> split = node.bool_member("split", true);
  if (!split) return split.error();
  step.split = *split;
  return step;
}

Result<PreTokenizerStep> read_digits(const JsonNode& node) {
  Result<bool> individual = node.bool_member("individual_digits", false);
  if (!individual) return individual.error();
  return PreTokenizerStep(ClassSplitStep{
      CodePointClass::kNumeric, *individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous}
  );
}

Result<PreTokenizerStep> read_punctuation(const JsonNode& node) {
  Result<SplitBehavior> behavior = read_behavior(node, SplitBehavior::kIsolated);
  if (!behavior) return behavior.error();
  return PreTokenizerStep(ClassSplitStep{CodePointClass::kPunctuation, *behavior});
}

Result<PreTokenizerStep> read_pre_tokenizer_step(const JsonNode& node, std::string_view type) {
  if (type == "Split") return read_split(node);
  if (type == "ByteLevel") return read_byte_level(node);
  if (type == "Digits") return read_digits(node);
  if (type == "Punctuation") return read_punctuation(node);
  if (type == "Whitespace") return PreTokenizerStep(WhitespaceStep{});
  if (type == "WhitespaceSplit") {
    return PreTokenizerStep(ClassSplitStep{CodePointClass::kSpace, SplitBehavior::kRemoved});
  }
  if (type == "Metaspace") {
    Result<MetaspaceStep> step = read_metaspace(node);
    if (!step) return step.error();
    return PreTokenizerStep(*std::move(step));
  }
  return unknown_type(node, "pre-tokenizer", type);
}

Result<void> append_pre_tokenizer(const JsonNode& node, std::vector<PreTokenizerStep>& steps) {
  Result<std::string> type = type_of(node);
  if (!type) return type.error();
  if (*type != "Sequence") return append_step(node, read_pre_tokenizer_step(node, *type), steps);
  return read_each(node, "pretokenizers", [&](const JsonNode& child) {
    return append_pre_tokenizer(child, steps);
  });
}

// --- decoders

Result<DecoderStep> read_decode_strip(const JsonNode& node) {
  constexpr int64_t kNumStrippedMax = 1'000'000;
  Result<std::string> content = read_character(node, "content");
  if (!content) return content.error();
  DecodeStrip step{.content = *std::move(content)};
  for (const auto& [name, target] :
       {std::pair{"start", &step.num_start}, std::pair{"stop", &step.num_stop}}) {
    Result<JsonNode> member = node.require(name);
    if (!member) return member.error();
    Result<int64_t> count = member->integer(0, kNumStrippedMax);
    if (!count) return count.error();
    *target = static_cast<size_t>(*count);
  }
  return DecoderStep(std::move(step));
}

Result<DecoderStep> read_decode_replace(const JsonNode& node) {
  Result<TextPattern> pattern = read_pattern(node);
  if (!pattern) return pattern.error();
  Result<std::string> content = node.string_member("content");
  if (!content) return content.error();
  return DecoderStep(DecodeReplace{*std::move(pattern), *std::move(content)});
}

Result<DecoderStep> read_decoder_step(const JsonNode& node, std::string_view type) {
  if (type == "ByteLevel") return DecoderStep(DecodeByteLevel{});
  if (type == "ByteFallback") return DecoderStep(DecodeByteFallback{});
  if (type == "Fuse") return DecoderStep(DecodeFuse{});
  if (type == "Strip") return read_decode_strip(node);
  if (type == "Replace") return read_decode_replace(node);
  if (type == "Metaspace") {
    Result<MetaspaceStep> step = read_metaspace(node);
    if (!step) return step.error();
    const bool drops_first = step->prepend_scheme != MetaspaceStep::PrependScheme::kNever;
    return DecoderStep(DecodeMetaspace{std::move(step->replacement), drops_first});
  }
  return unknown_type(node, "decoder", type);
}

Result<void> append_decoder(const JsonNode& node, std::vector<DecoderStep>& steps) {
  Result<std::string> type = type_of(node);
  if (!type) return type.error();
  if (*type != "Sequence") return append_step(node, read_decoder_step(node, *type), steps);
  return read_each(node, "decoders", [&](const JsonNode& child) {
    return append_decoder(child, steps);
  });
}

// --- post-processors

// The ids that `special_tokens` of a template gives for the name `id`.
Result<std::vector<TokenId>> read_template_ids(const JsonNode& processor, const JsonNode& piece) {
  Result<std::string> name = piece.string_member("id");
  if (!name) return name.error();
  Result<JsonNode> tokens = processor.require("special_tokens");
  if (!tokens) return tokens.error();
  const std::optional<JsonNode> token = tokens->member(*name);
  if (!token) return piece.error("names a token that \"special_tokens\" lacks");
  std::vector<TokenId> ids;
  Result<void> done = read_each(*token, "ids", [&](const JsonNode& id) -> Result<void> {
    Result<int64_t> value = id.integer(0, kTokenIdMax);
    if (!value) return value.error();
    ids.push_back(static_cast<TokenId>(*value));
    return {};
  });
  if (!done) return done.error();
  return ids;
}

// The `single` template: special tokens around one "A".
Result<PostProcessor> read_template(const JsonNode& node) {
  PostProcessor post;
  size_t num_sequences = 0;
  Result<void> done = read_each(node, "single", [&](const JsonNode& piece) -> Result<void> {
    if (const std::optional<JsonNode> sequence = piece.member("Sequence")) {
      Result<std::string> id = sequence->string_member("id");
      if (!id) return id.error();
      if (*id != "A") return sequence->error("is not the sequence \"A\"");
      ++num_sequences;
      return {};
    }
    const std::optional<JsonNode> special = piece.member("SpecialToken");
    if (!special) return piece.error("is neither a \"Sequence\" nor a \"SpecialToken\"");
    Result<std::vector<TokenId>> ids = read_template_ids(node, *special);
    if (!ids) return ids.error();
    std::vector<TokenId>& side = num_sequences == 0 ? post.before : post.after;
    side.insert(side.end(), ids->begin(), ids->end());
    return {};
  });
  if (!done) return done.error();
  if (num_sequences != 1) return node.error("has a \"single\" that does not hold one sequence");
  return post;
}

Result<void> apply_post_processor(const JsonNode& node, std::optional<PostProcessor>& post) {
  Result<std::string> type = type_of(node);
  if (!type) return type.error();
  // ByteLevel only trims offsets, which nothing here asks for.
  if (*type == "ByteLevel") return {};
  if (*type == "Sequence") {
    return read_each(node, "processors", [&](const JsonNode& child) {
      return apply_post_processor(child, post);
    });
  }
  if (*type != "TemplateProcessing") return unknown_type(node, "post-processor", *type);
  // The reference cannot apply a template to what another one made.
  if (post) return node.unsupported_here("is a second TemplateProcessing");
  Result<PostProcessor> read = read_template(node);
  if (!read) return read.error();
  post = *std::move(read);
  return {};
}

}  // namespace

Result<Normalizer> read_normalizer(const JsonNode& node) {
  std::vector<NormalizerStep> steps;
  Result<void> done = append_normalizer(node, steps);
  if (!done) return done.error();
  return Normalizer(std::move(steps));
}

Result<PreTokenizer> read_pre_tokenizer(const JsonNode& node) {
  std::vector<PreTokenizerStep> steps;
  Result<void> done = append_pre_tokenizer(node, steps);
  if (!done) return done.error();
  return PreTokenizer(std::move(steps));
}

Result<TextDecoder> read_decoder(const JsonNode& node) {
  std::vector<DecoderStep> steps;
  Result<void> done = append_decoder(node, steps);
  if (!done) return done.error();
  return TextDecoder(std::move(steps));
}

Result<PostProcessor> read_post_processor(const JsonNode& node) {
  std::optional<PostProcessor> post;
  Result<void> done = apply_post_processor(node, post);
  if (!done) return done.error();
  return post.value_or(PostProcessor{});
}

}  // namespace millrace
