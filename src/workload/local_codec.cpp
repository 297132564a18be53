// TokenCodec over a tokenizer of this process.
#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "workload/token_codec.h"

namespace millrace::bench {
namespace {

constexpr size_t kTextSizeMax = (size_t{1} << 30) - 1;  // Tokenizer::encode's

class LocalCodec : public TokenCodec {
 public:
  explicit LocalCodec(std::shared_ptr<const Tokenizer> tokenizer)
      : tokenizer_(std::move(tokenizer)), num_added_tokens_(tokenizer_->encode("").size()) {}

  Result<std::vector<TokenId>> encode(std::string_view text) const override {
    if (text.size() > kTextSizeMax) {
      return invalid_argument(
          fmt::format("a prompt has {} bytes, at most {} are encoded", text.size(), kTextSizeMax)
      );
    }
    return tokenizer_->encode(text, {.add_special_tokens = false, .plain_text = {}});
  }

  Result<std::string> decode(std::span<const TokenId> ids) const override {
    return tokenizer_->decode(ids, false);
  }

  size_t vocab_size() const override { return tokenizer_->vocab_size(); }

  bool is_reserved(TokenId id) const override {
    return tokenizer_->is_special(id) || !tokenizer_->token_text(id);
  }

  size_t num_added_tokens() const override { return num_added_tokens_; }

  bool is_local() const override { return true; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  size_t num_added_tokens_;
};

}  // namespace

std::unique_ptr<TokenCodec> make_local_codec(std::shared_ptr<const Tokenizer> tokenizer) {
  CHECK(tokenizer != nullptr, "a codec without a tokenizer");
  return std::make_unique<LocalCodec>(std::move(tokenizer));
}

}  // namespace millrace::bench
