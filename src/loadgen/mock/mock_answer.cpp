#include "loadgen/mock/mock_answer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/check.h"
#include "base/json.h"
#include "loadgen/mock/mock_tokenizer.h"

namespace millrace::bench {
namespace {

constexpr std::string_view kStreamEnd = "data: [DONE]\n\n";

bool is_nth(const std::optional<int64_t>& every, int64_t number) {
  return every && (number + 1) % *every == 0;
}

int64_t share_of(double share, int64_t num_tokens) {
  return std::llround(share * static_cast<double>(num_tokens));
}

std::string_view object_name(MockApi api, bool is_streamed) {
  if (api == MockApi::kCompletions) return "text_completion";
  return is_streamed ? "chat.completion.chunk" : "chat.completion";
}

// `"id":...,"object":...,"created":...,"model":...,"choices":[{"index":0,`
std::string envelope(
    const MockRequest& request, const std::string& model, int64_t number, int64_t created_s
) {
  return fmt::format(
      R"("id":"{}-mock-{}","object":"{}","created":{},"model":{},"choices":[)",
      request.api == MockApi::kChat ? "chatcmpl" : "cmpl",
      number,
      object_name(request.api, request.is_streamed),
      created_s,
      to_json_text(json::value(model))
  );
}

}  // namespace

MockAnswer::MockAnswer(
    const MockOptions& options, const MockRequest& request, int64_t number, int64_t created_s
)
    : options_(&options),
      request_(request),
      number_(number),
      num_tokens_(share_of(options.output_share, request.num_tokens_asked)),
      num_cached_(share_of(options.prefix_hit_rate, request.num_prompt_tokens)),
      times_(options, number),
      fault_(request.is_streamed ? choose_fault(options, number) : Fault::kNone),
      fault_at_(std::min(num_tokens_, std::max<int64_t>(1, num_tokens_ / 2))),
      owes_role_(request.api == MockApi::kChat && options.sends_role_chunk) {
  if (request.api == MockApi::kGenerate) return;
  chunk_head_ = request.is_streamed ? "data: {" : "{";
  chunk_head_ += envelope(request, options.model, number, created_s);
}

MockAnswer::Fault MockAnswer::choose_fault(const MockOptions& options, int64_t number) {
  if (is_nth(options.breaks_every, number)) return Fault::kBreak;
  if (is_nth(options.error_every, number)) return Fault::kError;
  if (is_nth(options.malformed_every, number)) return Fault::kMalformed;
  return Fault::kNone;
}

bool MockAnswer::takes_usage_deltas() const {
  return request_.wants_usage_deltas && options_->sends_usage_deltas;
}

std::string_view MockAnswer::finish_reason() const {
  return num_tokens_ == request_.num_tokens_asked ? "length" : "stop";
}

int64_t MockAnswer::chunk_size() const {
  return std::min(options_->tokens_per_chunk, num_tokens_ - num_sent_);
}

std::chrono::nanoseconds MockAnswer::next_due() const {
  CHECK(state_ == State::kOpen, "the answer has left");
  if (owes_role_ && request_.is_streamed) return std::chrono::nanoseconds{0};
  if (request_.is_streamed || num_tokens_ == 0) return times_.due();
  TokenTimes last = times_;
  last.advance((num_tokens_ - 1) / options_->tokens_per_chunk * options_->tokens_per_chunk);
  return last.due();
}

void MockAnswer::append_due(std::chrono::nanoseconds elapsed, size_t size_max, std::string& out) {
  if (!request_.is_streamed) {
    if (state_ == State::kOpen && next_due() <= elapsed) append_whole(out);
    return;
  }
  if (owes_role_) append_role_chunk(out);
  while (state_ == State::kOpen && times_.due() <= elapsed && out.size() < size_max) {
    append_next_chunk(out);
  }
}

void MockAnswer::append_next_chunk(std::string& out) {
  if (fault_ != Fault::kNone && num_sent_ >= fault_at_) append_fault(out);
  if (state_ != State::kOpen) return;
  const int64_t num_tokens = chunk_size();
  if (request_.api == MockApi::kGenerate) {
    append_native_chunk(num_tokens, out);
  } else {
    append_openai_chunk(num_tokens, out);
  }
  times_.advance(num_tokens);
  if (num_sent_ < num_tokens_) return;
  if (fault_ != Fault::kNone) append_fault(out);
  if (state_ == State::kOpen) append_end(out);
}

void MockAnswer::append_fault(std::string& out) {
  switch (std::exchange(fault_, Fault::kNone)) {
    case Fault::kNone:
      break;
    case Fault::kBreak:
      state_ = State::kBroken;
      break;
    case Fault::kError:
      out += "data: ";
      out += mock_error_body(500, "the mock server was told to fail", "");
      out += "\n\n";
      out += kStreamEnd;
      state_ = State::kWhole;
      break;
    case Fault::kMalformed:
      out += "data: {\"id\":\"mock\",\"choices\":[\n\n";
      break;
  }
}

void MockAnswer::append_texts(int64_t first, int64_t count, std::string& out) const {
  for (int64_t i = first; i < first + count; ++i) {
    append_mock_token(mock_output_token(options_->seed, number_, i), out);
  }
}

void MockAnswer::append_ids(int64_t first, int64_t count, std::string& out) const {
  for (int64_t i = first; i < first + count; ++i) {
    if (i > first) out += ',';
    const TokenId id = mock_output_token(options_->seed, number_, i);
    fmt::format_to(std::back_inserter(out), "{}", id);
  }
}

void MockAnswer::append_usage(std::string& out) const {
  fmt::format_to(
      std::back_inserter(out),
      R"("usage":{{"prompt_tokens":{},"total_tokens":{},"completion_tokens":{},)"
      R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
      request_.num_prompt_tokens,
      request_.num_prompt_tokens + num_sent_,
      num_sent_,
      num_cached_
  );
}

void MockAnswer::append_role_chunk(std::string& out) {
  owes_role_ = false;
  out += chunk_head_;
  out += R"({"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}])";
  if (takes_usage_deltas()) {
    out += ',';
    append_usage(out);
  }
  out += "}\n\n";
}

void MockAnswer::append_openai_chunk(int64_t num_tokens, std::string& out) {
  const bool is_chat = request_.api == MockApi::kChat;
  out += chunk_head_;
  out += is_chat ? R"({"index":0,"delta":{"content":")" : R"({"index":0,"text":")";
  append_texts(num_sent_, num_tokens, out);
  out += is_chat ? R"("})" : R"(")";
  if (request_.returns_token_ids) {
    out += R"(,"token_ids":[)";
    append_ids(num_sent_, num_tokens, out);
    out += ']';
  }
  num_sent_ += num_tokens;
  out += R"(,"logprobs":null,"finish_reason":)";
  if (num_sent_ < num_tokens_) {
    out += "null}]";
  } else {
    out.append("\"").append(finish_reason()).append("\"}]");
  }
  if (takes_usage_deltas()) {
    out += ',';
    append_usage(out);
  } else if (request_.includes_usage) {
    out += ",\"usage\":null";
  }
  out += "}\n\n";
}

void MockAnswer::append_end(std::string& out) {
  if (request_.includes_usage && request_.api != MockApi::kGenerate) {
    out += chunk_head_;
    out += "],";
    append_usage(out);
    out += "}\n\n";
  }
  out += kStreamEnd;
  state_ = State::kWhole;
}

// As SGLang's: each event has all there is so far.
void MockAnswer::append_native_members(std::string& out) const {
  fmt::format_to(
      std::back_inserter(out),
      R"({{"text":"{}","output_ids":[{}],"meta_info":{{"id":"mock-{}","finish_reason":)",
      native_text_,
      native_ids_,
      number_
  );
  if (num_sent_ < num_tokens_) {
    out += "null";
  } else if (finish_reason() == "length") {
    fmt::format_to(std::back_inserter(out), R"({{"type":"length","length":{}}})", num_sent_);
  } else {
    out += R"({"type":"stop","matched":2})";
  }
  fmt::format_to(
      std::back_inserter(out),
      R"(,"prompt_tokens":{},"completion_tokens":{},"cached_tokens":{}}}}})",
      request_.num_prompt_tokens,
      num_sent_,
      num_cached_
  );
}

void MockAnswer::append_native_chunk(int64_t num_tokens, std::string& out) {
  append_texts(num_sent_, num_tokens, native_text_);
  if (!native_ids_.empty() && num_tokens > 0) native_ids_ += ',';
  append_ids(num_sent_, num_tokens, native_ids_);
  num_sent_ += num_tokens;
  out += "data: ";
  append_native_members(out);
  out += "\n\n";
}

void MockAnswer::append_whole(std::string& out) {
  num_sent_ = num_tokens_;
  state_ = State::kWhole;
  if (request_.api == MockApi::kGenerate) {
    append_texts(0, num_tokens_, native_text_);
    append_ids(0, num_tokens_, native_ids_);
    return append_native_members(out);
  }
  const bool is_chat = request_.api == MockApi::kChat;
  out += chunk_head_;
  out += is_chat ? R"({"index":0,"message":{"role":"assistant","content":")"
                 : R"({"index":0,"text":")";
  append_texts(0, num_tokens_, out);
  out += is_chat ? R"("})" : R"(")";
  if (request_.returns_token_ids) {
    out += R"(,"token_ids":[)";
    append_ids(0, num_tokens_, out);
    out += ']';
  }
  out.append(R"(,"logprobs":null,"finish_reason":")").append(finish_reason()).append("\"}],");
  append_usage(out);
  out += '}';
}

}  // namespace millrace::bench
