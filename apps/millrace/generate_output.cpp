#include "generate_output.h"

#include <fmt/format.h>

#include <cstdio>

#include "terminal.h"

namespace millrace {
namespace {

json::array to_json(const std::vector<TokenLogprob>& logprobs) {
  json::array list;
  for (const TokenLogprob& entry : logprobs) {
    list.push_back({{"id", entry.id}, {"logprob", to_json_number(entry.logprob)}});
  }
  return list;
}

json::array to_json(const std::vector<std::vector<TokenLogprob>>& lists) {
  json::array array;
  for (const std::vector<TokenLogprob>& list : lists) array.push_back(to_json(list));
  return array;
}

json::value milliseconds(TimePoint begin, const std::optional<TimePoint>& end) {
  if (!end) return nullptr;
  return to_milliseconds(*end - begin);
}

json::object timings_of(const FinishedEvent& finished) {
  const SequenceTimings& timings = finished.timings;
  json::object object = {
      {"queue_ms", milliseconds(timings.arrival, timings.first_scheduled)},
      {"ttft_ms", milliseconds(timings.arrival, timings.first_token)},
      {"e2e_ms", milliseconds(timings.arrival, timings.last_token)},
      {"num_prompt_tokens", timings.num_prompt_tokens},
      {"num_output_tokens", timings.num_output_tokens},
      {"num_cached_tokens", timings.num_cached_tokens},
      {"num_preemptions", timings.num_preemptions},
  };
  object["tpot_ms"] = nullptr;
  if (timings.num_output_tokens > 1) {
    const double decode_ms = to_milliseconds(*timings.last_token - *timings.first_token);
    object["tpot_ms"] = decode_ms / (timings.num_output_tokens - 1);
  }
  return object;
}

// The stop string or stop token that ended a choice; null at the model's own end and otherwise.
json::value stop_reason_of(const ItemChoice& choice, const SamplingParams& sampling) {
  if (choice.stop_string) return json::value(*choice.stop_string);
  const std::optional<TokenId>& token = choice.finished.stop_token;
  if (!token) return nullptr;
  const auto& ids = sampling.stop_token_ids;
  return std::ranges::find(ids, *token) == ids.end() ? json::value(nullptr) : json::value(*token);
}

json::object error_object(const Error& error) {
  return {
      {"message", error.message},
      {"param", error.where.empty() ? json::value(nullptr) : json::value(error.where)},
  };
}

}  // namespace

GenerateOutput::GenerateOutput(std::span<const BatchItem> items, const OutputOptions& options)
    : items_(items), options_(options) {}

BatchCallbacks GenerateOutput::callbacks() {
  BatchCallbacks callbacks;
  if (options_.stream) {
    callbacks.on_text = [this](size_t, const std::string& text) {
      fmt::print("{}", text);
      return is_written();
    };
  }
  callbacks.on_result = [this](size_t index, const ItemResult& result) {
    account(result);
    if (options_.json) {
      print_json(index, result);
    } else if (result.error) {
      print_error(index, *result.error);
    } else {
      print_text(index, result);
    }
    return is_written();
  };
  return callbacks;
}

void GenerateOutput::print_text(size_t index, const ItemResult& result) {
  for (size_t choice = 0; choice < result.choices.size(); ++choice) {
    const ItemChoice& finished = result.choices[choice];
    if (options_.stream && choice == 0) {
      fmt::print("\n");  // the text has been printed as it came
    } else {
      if (items_.size() > 1 || result.choices.size() > 1) {
        fmt::print("== prompt {}, answer {}\n", index + 1, choice + 1);
      }
      fmt::print("{}\n", finished.text);
    }
    if (finished.finished.error) print_error(index, *finished.finished.error);
    if (finished.finished.reason == FinishReason::kDeadline) {
      print_stderr("prompt {}: cut off by --timeout-s\n", index + 1);
    }
  }
}

void GenerateOutput::print_json(size_t index, const ItemResult& result) {
  if (result.error) {
    const json::object object = {{"index", index}, {"error", error_object(*result.error)}};
    fmt::print("{}\n", to_json_text(object));
    return;
  }
  const BatchItem& item = items_[index];
  for (size_t choice = 0; choice < result.choices.size(); ++choice) {
    const ItemChoice& finished = result.choices[choice];
    json::object object = {
        {"index", index},
        {"choice", choice},
        {"prompt_token_ids", json::array(item.prompt.begin(), item.prompt.end())},
        {"token_ids", json::array(finished.token_ids.begin(), finished.token_ids.end())},
        {"text", finished.text},
        {"finish_reason", name_of(finished.finished.reason)},
        {"stop_reason", stop_reason_of(finished, item.fields.sampling)},
        {"logprobs", nullptr},
        {"timings", timings_of(finished.finished)},
    };
    if (item.fields.sampling.logprobs) object["logprobs"] = to_json(finished.logprobs);
    if (item.fields.sampling.prompt_logprobs) {
      json::array logprobs = to_json(result.prompt_logprobs);
      logprobs.insert(logprobs.begin(), nullptr);  // nothing comes before the first token
      object["prompt_logprobs"] = std::move(logprobs);
    }
    if (finished.finished.error) object["error"] = error_object(*finished.finished.error);
    fmt::print("{}\n", to_json_text(object));
  }
}

void GenerateOutput::print_error(size_t index, const Error& error) {
  print_stderr("millrace generate: prompt {}: {}\n", index + 1, error.message);
}

void GenerateOutput::account(const ItemResult& result) {
  bool has_failed = result.error.has_value();
  for (const ItemChoice& choice : result.choices) {
    const SequenceTimings& timings = choice.finished.timings;
    has_failed = has_failed || choice.finished.reason == FinishReason::kError;
    if (choice.finished.choice == 0) num_prompt_tokens_ += timings.num_prompt_tokens;
    num_output_tokens_ += timings.num_output_tokens;
    if (!timings.first_token) continue;
    prefill_time_ += *timings.first_token - timings.arrival;
    decode_time_ += *timings.last_token - *timings.first_token;
    num_decoded_tokens_ += timings.num_output_tokens - 1;
  }
  if (has_failed) ++num_failed_;
}

Result<void> GenerateOutput::finish() {
  const Duration total = Clock::now() - begin_;
  const auto per_second = [](int64_t count, Duration time) {
    return time > Duration(0) ? static_cast<double>(count) / to_seconds(time) : 0.0;
  };
  if (!options_.json && items_.size() == 1 && num_decoded_tokens_ > 0) {
    print_stderr(
        "prompt: {} tokens in {:.2f} s ({:.1f} tokens/s); answer: {} tokens, {:.1f} tokens/s\n",
        num_prompt_tokens_,
        to_seconds(prefill_time_),
        per_second(num_prompt_tokens_, prefill_time_),
        num_output_tokens_,
        per_second(num_decoded_tokens_, decode_time_)
    );
  } else if (!options_.json && num_output_tokens_ > 0) {
    print_stderr(
        "{} prompts: {} tokens in, {} tokens out in {:.2f} s ({:.1f} tokens/s out)\n",
        items_.size(),
        num_prompt_tokens_,
        num_output_tokens_,
        to_seconds(total),
        per_second(num_output_tokens_, total)
    );
  }
  if (is_output_lost_) return invalid_argument("the output could not be written");
  if (num_failed_ == 0) return {};
  return invalid_argument(fmt::format("{} of {} prompts failed", num_failed_, items_.size()));
}

bool GenerateOutput::is_written() {
  if (std::fflush(stdout) != 0) is_output_lost_ = true;
  return !is_output_lost_;
}

}  // namespace millrace
