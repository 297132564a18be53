#include "server/model_list.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace millrace {
namespace {

const std::vector<std::string> kNames = {"m", "alias \"1\""};

ServedModel served_model() {
  return {
      .names = kNames,
      .path = "models/m.gguf",
      .tokenizer_path = "models/tokenizer",
      .family = "llama",
      .created_s = 1700000000,
      .max_model_len = 2048,
  };
}

json::value parsed(const std::string& text) {
  const Result<json::value> value = parse_json(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? *value : json::value();
}

TEST(ModelList, HasAnEntryForEachName) {
  const json::value list = parsed(model_list_json(served_model()));
  EXPECT_EQ(list.at("object"), json::value("list"));
  ASSERT_EQ(list.at("data").as_array().size(), 2U);
  EXPECT_EQ(list.at("data").at(0).at("id"), json::value("m"));
  EXPECT_EQ(list.at("data").at(1).at("id"), json::value("alias \"1\""));
}

TEST(ModelList, WordsAModelAsVllmDoes) {
  const std::optional<std::string> entry = model_json(served_model(), "m");
  ASSERT_TRUE(entry);
  EXPECT_EQ(
      *entry,
      R"({"id":"m","object":"model","created":1700000000,"owned_by":"millrace",)"
      R"("root":"models/m.gguf","parent":null,"max_model_len":2048,"permission":[)"
      R"({"id":"modelperm-millrace","object":"model_permission","created":1700000000,)"
      R"("allow_create_engine":false,"allow_sampling":true,"allow_logprobs":true,)"
      R"("allow_search_indices":false,"allow_view":true,"allow_fine_tuning":false,)"
      R"("organization":"*","group":null,"is_blocking":false}]})"
  );
  EXPECT_EQ(model_json(served_model(), "M"), std::nullopt);
  EXPECT_EQ(model_json(served_model(), ""), std::nullopt);
}

TEST(ModelList, TellsTheVersion) {
  EXPECT_EQ(version_json("0.1.0"), R"({"version":"0.1.0"})");
}

TEST(ModelList, TellsSglangsClientsOfTheModel) {
  const json::value info = parsed(model_info_json(served_model()));
  EXPECT_EQ(info.at("model_path"), json::value("models/m.gguf"));
  EXPECT_EQ(info.at("tokenizer_path"), json::value("models/tokenizer"));
  EXPECT_EQ(info.at("served_model_name"), json::value("m"));
  EXPECT_EQ(info.at("is_generation"), json::value(true));
}

TEST(ModelList, TellsSglangsClientsOfTheServer) {
  EngineLimits limits;
  limits.vocab_size = 100;
  limits.max_num_seqs = 8;
  limits.block_size = 16;
  limits.num_blocks = 1'000'000'000;
  limits.max_num_live_seqs = 50;
  limits.policy = SchedulingPolicy::kFair;
  limits.enable_prefix_caching = true;
  limits.admission = {.max_num_queued_reqs = 7, .max_result_bytes = 99};
  EngineStats stats;
  stats.num_running = 3;
  stats.num_queued_seqs = 4;
  stats.num_waiting_tokens = 500;
  stats.num_blocks_cached = 6;
  stats.output_tokens_per_second = 12.5;
  const json::value info = parsed(server_info_json(served_model(), limits, stats, "0.1.0"));
  EXPECT_EQ(info.at("max_queued_requests"), json::value(7));
  EXPECT_EQ(info.at("max_num_live_seqs"), json::value(50));
  EXPECT_EQ(info.at("max_num_queued_reqs"), json::value(7));
  EXPECT_TRUE(info.at("max_num_queued_tokens").is_null());
  EXPECT_EQ(info.at("max_result_bytes"), json::value(99));
  EXPECT_EQ(info.at("schedule_policy"), json::value("fair"));
  EXPECT_EQ(info.at("disable_radix_cache"), json::value(false));
  EXPECT_EQ(info.at("version"), json::value("0.1.0"));
  EXPECT_EQ(info.at("max_total_num_tokens"), json::value(16'000'000'000));
  EXPECT_EQ(info.at("dp_size"), json::value(1));
  const json::value& state = info.at("internal_states").at(0);
  EXPECT_EQ(state.at("last_gen_throughput"), json::value(12.5));
  EXPECT_TRUE(state.at("avg_spec_accept_length").is_null());
  EXPECT_EQ(state.at("num_running_reqs"), json::value(3));
  EXPECT_EQ(state.at("num_queue_reqs"), json::value(4));
  EXPECT_EQ(state.at("num_waiting_tokens"), json::value(500));
  EXPECT_EQ(state.at("num_blocks_cached"), json::value(6));
  EXPECT_EQ(state.at("memory_usage").at("token_capacity"), json::value(16'000'000'000));
  EXPECT_TRUE(info.at("speculative_algorithm").is_null());

  limits.speculation =
      NgramSpeculation{.num_speculative_tokens = 5, .prompt_lookup_max = 4, .prompt_lookup_min = 2};
  stats.speculation.add(5, 4);
  stats.speculation.add(3, 1);
  const json::value guessing = parsed(server_info_json(served_model(), limits, stats, "0.1.0"));
  EXPECT_EQ(guessing.at("speculative_algorithm"), json::value("NGRAM"));
  EXPECT_EQ(guessing.at("speculative_num_draft_tokens"), json::value(5));
  EXPECT_EQ(guessing.at("prompt_lookup_min"), json::value(2));
  const json::value& of_engine = guessing.at("internal_states").at(0);
  EXPECT_EQ(of_engine.at("avg_spec_accept_length"), json::value(3.5));
  EXPECT_EQ(of_engine.at("spec_num_draft_tokens"), json::value(8));
  EXPECT_EQ(of_engine.at("spec_num_accepted_tokens"), json::value(5));
}

}  // namespace
}  // namespace millrace
