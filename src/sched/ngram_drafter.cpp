#include "sched/ngram_drafter.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace millrace {
namespace {

NgramIndex::Options index_options(const NgramDrafter::Options& options, int32_t first_end) {
  return {
      .length_min = options.speculation.prompt_lookup_min,
      .length_max = options.speculation.prompt_lookup_max,
      .hash_key = options.hash_key,
      .first_end = first_end,
  };
}

}  // namespace

std::shared_ptr<NgramIndex> NgramDrafter::make_prompt_index(const Options& options) {
  return std::make_shared<NgramIndex>(index_options(options, 1));
}

NgramDrafter::NgramDrafter(const Options& options, std::shared_ptr<NgramIndex> prompt)
    : speculation_(options.speculation),
      num_prompt_tokens_(options.num_prompt_tokens),
      prompt_(std::move(prompt)),
      output_(index_options(options, options.num_prompt_tokens + 1)) {}

void NgramDrafter::draft(
    const TokenView& tokens, int32_t num_tokens_max, std::vector<TokenId>& drafts
) {
  CHECK(tokens.size() > num_prompt_tokens_, "what follows a prompt is not guessed");
  drafts.clear();
  // Not the last n-grams: they are what is looked for.
  const bool is_output_entered = output_.extend(tokens, tokens.size() - 1, kNumEndsPerCall);
  const bool is_prompt_entered = prompt_->extend(tokens, num_prompt_tokens_, kNumEndsPerCall);
  if (!is_output_entered || !is_prompt_entered) return;

  const NgramIndex::Hashes hashes = output_.hashes_before(tokens, tokens.size());
  const int32_t longest = std::min(speculation_.prompt_lookup_max, tokens.size());
  std::optional<int32_t> next;  // the position of the first guess
  for (int32_t length = longest; length >= speculation_.prompt_lookup_min && !next; --length) {
    next = output_.find(tokens, hashes, length);  // it comes later than all in the prompt
    if (!next) next = prompt_->find(tokens, hashes, length);
  }
  if (!next) return;
  for (int32_t i = 0; i < num_tokens_max; ++i) {
    const int32_t position = *next + i;
    const int32_t num_beyond = position - tokens.size();
    drafts.push_back(
        num_beyond < 0 ? tokens.at(position) : drafts[static_cast<size_t>(num_beyond)]
    );
  }
}

}  // namespace millrace
