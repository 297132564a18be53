#include "server/protocol/logprob_json.h"

#include <algorithm>
#include <vector>

#include "server/protocol/json_text.h"
#include "text/unicode.h"

namespace millrace {
namespace {

// Bytes as text; those that are no UTF-8 as \xf0, the way OpenAI's chats name such tokens.
std::string readable(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  while (!bytes.empty()) {
    const Utf8Sequence sequence = next_utf8_sequence(bytes);
    if (sequence.kind == Utf8Sequence::Kind::kComplete) {
      text += bytes.substr(0, sequence.num_bytes);
    } else {
      for (const char character : bytes.substr(0, sequence.num_bytes)) {
        const auto byte = static_cast<uint8_t>(character);
        text += "\\x";
        text += kDigits[byte >> 4];
        text += kDigits[byte & 0xF];
      }
    }
    bytes.remove_prefix(sequence.num_bytes);
  }
  return text;
}

void append_readable(std::string_view bytes, std::string& out) {
  if (is_valid_utf8(bytes)) {
    append_json_string(bytes, out);
  } else {
    append_json_string(readable(bytes), out);
  }
}

void append_name_by_id(TokenId id, std::string& out) {
  out += "\"token_id:";
  append_json_integer(id, out);
  out += '"';
}

void append_bytes(std::string_view bytes, std::string& out) {
  out += '[';
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i > 0) out += ',';
    append_json_integer(static_cast<uint8_t>(bytes[i]), out);
  }
  out += ']';
}

}  // namespace

BestFirst::BestFirst(std::span<const TokenLogprob> logprobs) : logprobs_(logprobs) {
  const TokenLogprob& chosen = logprobs.front();
  const auto others = logprobs.subspan(1);
  const auto worse = std::ranges::find_if(others, [&](const TokenLogprob& other) {
    return other.logprob != chosen.logprob ? other.logprob < chosen.logprob : other.id > chosen.id;
  });
  chosen_place_ = static_cast<size_t>(worse - others.begin());
}

size_t LogprobWording::num_top() const {
  return static_cast<size_t>(std::max(request_.fields.sampling.logprobs.value_or(0), 0));
}

// `"token":...,"logprob":...,"bytes":[...]`
void LogprobWording::append_chat_token(const TokenLogprob& token, std::string& out) const {
  const std::string bytes = tokenizer_.token_bytes(token.id);
  out += "\"token\":";
  if (request_.return_tokens_as_token_ids) {
    append_name_by_id(token.id, out);
  } else {
    append_readable(bytes, out);
  }
  out += ",\"logprob\":";
  append_json_logprob(token.logprob, out);
  out += ",\"bytes\":";
  append_bytes(bytes, out);
}

void LogprobWording::append_chat(std::span<const SampledToken> tokens, std::string& out) const {
  out += "{\"content\":[";
  bool is_first = true;
  for (const SampledToken& token : tokens) {
    if (token.logprobs.empty()) continue;
    if (!is_first) out += ',';
    is_first = false;
    out += '{';
    append_chat_token(token.logprobs.front(), out);
    out += ",\"top_logprobs\":[";
    const BestFirst best(token.logprobs);
    for (size_t place = 0; place < std::min(best.size(), num_top()); ++place) {
      out += place == 0 ? "{" : ",{";
      append_chat_token(best[place], out);
      out += '}';
    }
    out += "]}";
  }
  out += "],\"refusal\":null}";
}

// Tokens that are no text are named as OpenAI's completions do: "bytes:\xf0\x9f".
void LogprobWording::append_completion_name(TokenId id, std::string& out) const {
  if (request_.return_tokens_as_token_ids) return append_name_by_id(id, out);
  const std::string bytes = tokenizer_.token_bytes(id);
  if (is_valid_utf8(bytes)) return append_json_string(bytes, out);
  append_json_string("bytes:" + readable(bytes), out);
}

void LogprobWording::append_top_logprobs(std::span<const TokenLogprob> logprobs, std::string& out)
    const {
  if (logprobs.empty()) {
    out += "null";
    return;
  }
  const BestFirst best(logprobs);
  std::vector<std::string> names;
  out += '{';
  for (size_t place = 0; place < best.size(); ++place) {
    if (place >= num_top() && place != best.chosen_place()) continue;
    std::string name;
    append_completion_name(best[place].id, name);
    if (std::ranges::find(names, name) != names.end()) continue;
    if (!names.empty()) out += ',';
    out += name;
    out += ':';
    append_json_logprob(best[place].logprob, out);
    names.push_back(std::move(name));
  }
  out += '}';
}

void LogprobWording::append_completion(std::span<const TokenAt> tokens, std::string& out) const {
  const auto append_list = [&](std::string_view name, auto append_one) {
    out += name;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) out += ',';
      append_one(tokens[i]);
    }
    out += ']';
  };
  append_list("{\"tokens\":[", [&](const TokenAt& token) {
    append_completion_name(token.id, out);
  });
  append_list(",\"token_logprobs\":[", [&](const TokenAt& token) {
    if (token.logprobs.empty()) {
      out += "null";
    } else {
      append_json_logprob(token.logprobs.front().logprob, out);
    }
  });
  append_list(",\"top_logprobs\":[", [&](const TokenAt& token) {
    append_top_logprobs(token.logprobs, out);
  });
  append_list(",\"text_offset\":[", [&](const TokenAt& token) {
    append_json_integer(token.text_offset, out);
  });
  out += '}';
}

void LogprobWording::append_prompt_logprobs(
    std::span<const std::vector<TokenLogprob>> logprobs, std::string& out
) const {
  const auto num_most_likely =
      static_cast<size_t>(std::max(request_.fields.sampling.prompt_logprobs.value_or(0), 0));
  const auto append_token = [&](const TokenLogprob& token, size_t place) {
    out += '"';
    append_json_integer(token.id, out);
    out += "\":{\"logprob\":";
    append_json_logprob(token.logprob, out);
    out += ",\"rank\":";
    if (place < num_most_likely) {
      append_json_integer(static_cast<int64_t>(place) + 1, out);
    } else {
      out += "null";
    }
    out += ",\"decoded_token\":";
    append_readable(tokenizer_.token_bytes(token.id), out);
    out += '}';
  };
  out += "[null";
  for (const std::vector<TokenLogprob>& position : logprobs) {
    if (position.empty()) {
      out += ",null";
      continue;
    }
    out += ",{";
    const BestFirst best(position);
    append_token(position.front(), best.chosen_place());
    for (size_t place = 0; place < best.size(); ++place) {
      if (place == best.chosen_place()) continue;
      out += ',';
      append_token(best[place], place);
    }
    out += '}';
  }
  out += ']';
}

}  // namespace millrace
