// The events of a stream say what the whole answer says, however its deltas are cut and mixed.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "base/rng.h"
#include "server/protocol/answer_fixtures.h"

namespace millrace {
namespace {

// A request and what came of it.
struct Answered {
  GenerationRequest request;
  GenerationResult result;
};

std::vector<TokenLogprob> random_logprobs(TokenId id, int32_t num_top, Rng& random) {
  std::vector<TokenLogprob> logprobs = {{id, -static_cast<float>(random.below(64)) / 8.0F}};
  float logprob = 0.0F;
  for (int32_t i = 0; i < num_top; ++i) {
    logprob -= static_cast<float>(random.below(16)) / 16.0F;
    const auto other = static_cast<TokenId>(random.below(258));
    if (other != id) logprobs.push_back({other, logprob});
  }
  return logprobs;
}

ChoiceResult random_choice(const GenerationRequest& request, std::string echo, Rng& random) {
  constexpr std::array<std::string_view, 8> kCharacters = {
      "a",
      "\n",
      "\"",
      "\\",
      "\xC3\xA9",
      "\xE2\x82\xAC",
      "\xF0\x9F\x98\x80",
      std::string_view("\0", 1)};
  ChoiceResult choice;
  choice.text = std::move(echo);
  const uint64_t num_characters = random.below(12);
  for (uint64_t i = 0; i < num_characters; ++i) {
    choice.text += kCharacters[random.below(kCharacters.size())];
    for (SampledToken& token : tokens_of(kCharacters[random.below(kCharacters.size())])) {
      choice.tokens.push_back(std::move(token));
    }
  }
  if (random.below(2) == 0) choice.tokens.push_back({.id = kByteTokenizerEnd, .logprobs = {}});
  if (const auto& num_top = request.fields.sampling.logprobs) {
    for (SampledToken& token : choice.tokens) {
      token.logprobs = random_logprobs(token.id, *num_top, random);
      choice.text_offsets.push_back(static_cast<int64_t>(random.below(64)));
    }
  }
  switch (random.below(4)) {
    case 0:
      choice.ending = {.finish_reason = "length", .stop_reason = {}};
      break;
    case 1:
      choice.ending = {.finish_reason = "stop", .stop_reason = TokenId{7}};
      break;
    case 2:
      choice.ending = {.finish_reason = "stop", .stop_reason = std::string("\n\"")};
      break;
    default:
      break;
  }
  choice.timings = test_timings();
  return choice;
}

Answered random_answer(Api api, Rng& random) {
  Answered made;
  const uint64_t num_prompts = api == Api::kChat ? 1 : 1 + random.below(3);
  made.request = request_of(api, std::vector<PromptInput>(num_prompts, "Hi"));
  made.request.fields.sampling.n = static_cast<int32_t>(1 + random.below(3));
  made.request.is_prompt_list = num_prompts > 1;
  made.request.is_stream = true;
  made.request.fields.echo = api == Api::kCompletions && random.below(2) == 0;
  made.request.include_usage = random.below(2) == 0;
  made.request.continuous_usage_stats = random.below(2) == 0;
  made.request.return_token_ids = random.below(2) == 0;
  made.request.return_timings = random.below(2) == 0;
  if (random.below(2) == 0) {
    made.request.fields.sampling.logprobs = static_cast<int32_t>(random.below(4));
  }
  for (uint64_t i = 0; i < num_prompts; ++i) {
    PromptResult prompt = prompt_result({'H', 'i'});
    if (made.request.fields.echo && made.request.fields.sampling.logprobs) {
      prompt.prompt_logprobs = {random_logprobs('i', 2, random)};
      prompt.text_offsets = {0, 1};
    }
    for (int32_t n = 0; n < made.request.fields.sampling.n; ++n) {
      const std::string echo = made.request.fields.echo ? "Hi" : "";
      prompt.choices.push_back(random_choice(made.request, echo, random));
    }
    made.result.prompts.push_back(std::move(prompt));
  }
  return made;
}

// What of a choice is not in the stream yet.
struct Rest {
  std::string_view text;
  std::span<const SampledToken> tokens;
  const ChoiceResult* choice = nullptr;
  bool is_over = false;
};

size_t whole_characters(std::string_view text, size_t size) {
  while (size < text.size() && (static_cast<uint8_t>(text[size]) & 0xC0) == 0x80) ++size;
  return std::min(size, text.size());
}

// Streams the result in deltas of random sizes, the choices mixed.
std::string stream_of(const Answered& made, const Tokenizer& tokenizer, Rng& random) {
  std::vector<PromptResult> prompts = made.result.prompts;
  std::vector<Rest> rests;
  for (const PromptResult& prompt : made.result.prompts) {
    for (const ChoiceResult& choice : prompt.choices) {
      rests.push_back({.text = choice.text, .tokens = choice.tokens, .choice = &choice});
    }
  }
  for (PromptResult& prompt : prompts) prompt.choices.clear();
  const auto writer = make_answer_writer(made.request, tokenizer, test_identity());
  std::string out;
  writer->begin(prompts, out);
  for (size_t num_open = rests.size(); num_open > 0;) {
    const uint64_t index = random.below(rests.size());
    Rest& rest = rests[index];
    if (rest.is_over) continue;
    ChoiceDelta delta;
    delta.choice = static_cast<int32_t>(index);
    const size_t size = whole_characters(rest.text, random.below(4));
    const size_t num_tokens = std::min<size_t>(random.below(3), rest.tokens.size());
    delta.text = rest.text.substr(0, size);
    delta.tokens = rest.tokens.first(num_tokens);
    if (made.request.fields.sampling.logprobs) {
      const std::span<const int64_t> offsets = rest.choice->text_offsets;
      delta.text_offsets = offsets.last(rest.tokens.size()).first(num_tokens);
    }
    rest.text.remove_prefix(size);
    rest.tokens = rest.tokens.subspan(num_tokens);
    rest.is_over = rest.text.empty() && rest.tokens.empty();
    if (rest.is_over) {
      delta.ending = &rest.choice->ending;
      delta.timings = &rest.choice->timings;
      --num_open;
    }
    writer->delta(delta, {}, out);
  }
  writer->end({}, out);
  return out;
}

void append_all(json::value& to, const json::value& more) {
  if (to.is_null()) to = json::array();
  for (const json::value& element : more.as_array()) to.as_array().push_back(element);
}

void append_logprobs(json::value& to, const json::value& logprobs) {
  if (logprobs.is_null()) return;
  if (to.is_null()) to = json::object();
  for (const auto& [name, list] : logprobs.as_object()) {
    if (list.is_null()) {
      to.as_object()[name] = nullptr;
    } else {
      append_all(to.as_object()[name], list);
    }
  }
}

// A choice of an OpenAI stream, put together as a client does it.
struct Gathered {
  std::string text;
  json::value logprobs;
  json::value token_ids = json::array();
  json::value finish_reason;
  json::value stop_reason;
  int num_endings = 0;
  int num_roles = 0;
};

void gather(const json::object& choice, Gathered& gathered) {
  EXPECT_EQ(gathered.num_endings, 0) << "a chunk after the one with the finish_reason";
  if (const json::value* text = choice.if_contains("text")) gathered.text += text->as_string();
  if (const json::value* delta = choice.if_contains("delta")) {
    if (delta->as_object().contains("role")) ++gathered.num_roles;
    if (const json::value* content = delta->as_object().if_contains("content")) {
      gathered.text += content->as_string();
    }
  }
  append_logprobs(gathered.logprobs, choice.at("logprobs"));
  if (const json::value* ids = choice.if_contains("token_ids")) {
    append_all(gathered.token_ids, *ids);
  }
  if (choice.at("finish_reason").is_null()) return;
  ++gathered.num_endings;
  gathered.finish_reason = choice.at("finish_reason");
  gathered.stop_reason = choice.at("stop_reason");
}

std::vector<Gathered> gather_stream(const std::vector<std::string>& events, size_t num_choices) {
  std::vector<Gathered> choices(num_choices);
  for (const std::string& event : events) {
    const json::value chunk = parsed(event);
    for (const json::value& choice : chunk.at("choices").as_array()) {
      gather(choice.as_object(), choices.at(static_cast<size_t>(choice.at("index").as_int64())));
    }
  }
  return choices;
}

void expect_stream_is_whole(Api api, uint64_t seed) {
  Rng random(seed);
  const Tokenizer tokenizer = make_byte_tokenizer();
  const Answered made = random_answer(api, random);
  std::vector<std::string> events = events_of(stream_of(made, tokenizer, random));
  ASSERT_EQ(events.back(), "[DONE]");
  events.pop_back();
  const json::value whole = parsed(whole_of(made.request, made.result));
  const json::array& expected = whole.at("choices").as_array();
  const std::vector<Gathered> choices = gather_stream(events, expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const json::object& choice = expected[i].as_object();
    const json::value& text =
        api == Api::kChat ? choice.at("message").at("content") : choice.at("text");
    EXPECT_EQ(text.as_string(), choices[i].text);
    EXPECT_EQ(choices[i].num_endings, 1);
    EXPECT_EQ(choices[i].num_roles, api == Api::kChat ? 1 : 0);
    EXPECT_EQ(choice.at("finish_reason"), choices[i].finish_reason);
    EXPECT_EQ(choice.at("stop_reason"), choices[i].stop_reason);
    if (choice.contains("token_ids")) {
      EXPECT_EQ(choice.at("token_ids"), choices[i].token_ids);
    }
    const auto n = static_cast<size_t>(made.request.fields.sampling.n);
    const bool has_tokens = !made.result.prompts[i / n].choices[i % n].tokens.empty();
    // A choice without any token has nothing to tell of them.
    if (has_tokens || !choices[i].logprobs.is_null()) {
      EXPECT_EQ(choice.at("logprobs"), choices[i].logprobs);
    }
  }
}

TEST(AnswerStream, DeltasOfACompletionAddUpToTheWholeAnswer) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    expect_stream_is_whole(Api::kCompletions, seed);
    if (HasFailure()) return;
  }
}

TEST(AnswerStream, DeltasOfAChatAddUpToTheWholeAnswer) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    expect_stream_is_whole(Api::kChat, seed);
    if (HasFailure()) return;
  }
}

TEST(AnswerStream, TheLastEventOfANativeChoiceIsItsWholeAnswer) {
  const Tokenizer tokenizer = make_byte_tokenizer();
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Rng random(seed);
    const Answered made = random_answer(Api::kNative, random);
    const std::vector<std::string> events = events_of(stream_of(made, tokenizer, random));
    ASSERT_EQ(events.back(), "[DONE]");
    const json::value whole = parsed(whole_of(made.request, made.result));
    const bool is_list = whole.is_array();
    std::vector<json::value> last(is_list ? whole.as_array().size() : 1);
    std::vector<std::string> texts(last.size());
    for (const std::string& event : std::span(events).first(events.size() - 1)) {
      json::value value = parsed(event);
      json::object& object = value.as_object();
      const auto index = is_list ? static_cast<size_t>(object.at("index").as_int64()) : 0;
      object.erase("index");
      const std::string text(object.at("text").as_string());
      ASSERT_TRUE(text.starts_with(texts.at(index)));
      texts[index] = text;
      last[index] = std::move(value);
    }
    for (size_t i = 0; i < last.size(); ++i) {
      ASSERT_EQ(last[i], is_list ? whole.at(i) : whole);
    }
  }
}

}  // namespace
}  // namespace millrace
