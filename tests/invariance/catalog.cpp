#include "catalog.h"

#include <algorithm>

namespace millrace {
namespace {

class CatalogMaker {
 public:
  CatalogMaker(TestModel& model, const CatalogOptions& options)
      : model_(model), options_(options), rng_(options.seed) {}

  std::vector<CatalogEntry> make() {
    const std::shared_ptr<CpuModel> oracle = model_.load(model_.setups().front());
    while (entries_.size() < options_.num_entries) {
      CatalogEntry entry;
      entry.parent = draw_prompt(entry.request);
      draw_sampling(entry.request.sampling);
      entry.request.seed = rng_.next();
      entry.request.priority = draw(-1, 1);
      entry.request.tenant = TenantId{draw(0, 2)};
      entry.alone = run_alone(*oracle, entry.request, model_.eos_token_ids());
      entries_.push_back(std::move(entry));
    }
    return std::move(entries_);
  }

 private:
  int32_t draw(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.below(static_cast<uint64_t>(high - low + 1)));
  }

  void append_tokens(int32_t count, std::vector<TokenId>& tokens) {
    for (int32_t i = 0; i < count; ++i) {
      tokens.push_back(draw(0, static_cast<int32_t>(model_.vocab_size()) - 1));
    }
  }

  // Returns the entry whose chat it continues.
  std::optional<size_t> draw_prompt(Request& request) {
    std::vector<TokenId>& prompt = request.prompt;
    const int32_t most = options_.num_prompt_tokens_max;
    std::optional<size_t> parent;
    if (entries_.size() < 3) {
      // A whole number of blocks of 16, and nearly so.
      const int32_t lengths[] = {most / 16 * 8, most / 2 + 5, most / 3};
      append_tokens(lengths[entries_.size()], prompt);
      return parent;
    }
    const size_t other = rng_.below(entries_.size());
    const std::vector<TokenId>& theirs = entries_[other].request.prompt;
    switch (draw(0, 7)) {
      case 0:  // something new
        append_tokens(draw(1, draw(0, 1) == 0 ? most : most / 6), prompt);
        break;
      case 1:  // an exact repeat
        prompt = theirs;
        break;
      case 2:  // the beginning of another
        prompt.assign(
            theirs.begin(), theirs.begin() + draw(1, static_cast<int32_t>(theirs.size()))
        );
        break;
      case 3:  // begins like another and goes on otherwise
        prompt.assign(
            theirs.begin(), theirs.begin() + draw(1, static_cast<int32_t>(theirs.size()))
        );
        append_tokens(draw(1, 20), prompt);
        break;
      case 4:  // all of another and more
        prompt = theirs;
        append_tokens(draw(1, 20), prompt);
        break;
      case 5: {  // says the same over and over: worth guessing
        const int32_t period = draw(1, 8);
        append_tokens(period, prompt);
        for (int32_t i = draw(8, most); i > 0; --i) {
          prompt.push_back(prompt[prompt.size() - static_cast<size_t>(period)]);
        }
        break;
      }
      default: {  // the next turn of a chat
        const std::vector<TokenId>& answer = entries_[other].alone[0].record.tokens;
        prompt = theirs;
        prompt.insert(prompt.end(), answer.begin(), answer.end());
        append_tokens(draw(0, 12), prompt);
        parent = other;
        break;
      }
    }
    if (std::ssize(prompt) > most) prompt.resize(static_cast<size_t>(most));
    return parent;
  }

  void draw_sampling(SamplingParams& sampling) {
    // Most answers are short; it takes a long one to outgrow what its sequence was admitted with.
    const int32_t most = options_.num_output_tokens_max;
    sampling.max_tokens = draw(0, 2) == 0 ? draw(most / 2, most) : draw(1, std::max(1, most / 5));
    sampling.min_tokens = draw(0, 3) == 0 ? draw(0, sampling.max_tokens) : 0;
    sampling.ignore_eos = draw(0, 1) == 0;
    sampling.temperature = draw(0, 2) == 0 ? 0.0F : 0.9F;
    if (draw(0, 3) == 0) sampling.top_p = 0.9F;
    if (draw(0, 3) == 0) sampling.top_k = 20;
    if (draw(0, 3) == 0) sampling.repetition_penalty = 1.2F;
    if (draw(0, 4) == 0) sampling.stop_token_ids = {draw(0, 40), 3};
    if (draw(0, 3) == 0) sampling.n = draw(2, 4);
    sampling.logprobs = draw(0, 4);
    if (draw(0, 5) == 0) sampling.prompt_logprobs = draw(0, 2);
  }

  TestModel& model_;
  CatalogOptions options_;
  Rng rng_;
  std::vector<CatalogEntry> entries_;
};

}  // namespace

std::vector<CatalogEntry> make_catalog(TestModel& model, const CatalogOptions& options) {
  return CatalogMaker(model, options).make();
}

}  // namespace millrace
