// GGUF metadata as a config.json object.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <span>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "checkpoint/dequantize.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/printable.h"

namespace millrace {
namespace {

struct Architecture {
  std::string_view gguf_name;  // general.architecture
  std::string_view model_type;
  std::string_view class_name;
  bool has_experts = false;
  // Whether a token's experts share a weight of 1, where the file does not say.
  bool normalizes_topk = false;
};

constexpr std::array kArchitectures = {
    Architecture{"llama", "llama", "LlamaForCausalLM"},
    Architecture{"qwen2", "qwen2", "Qwen2ForCausalLM"},
    Architecture{"qwen3", "qwen3", "Qwen3ForCausalLM"},
    Architecture{"qwen2moe", "qwen2_moe", "Qwen2MoeForCausalLM", true, false},
    Architecture{"qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", true, true},
};

// What a model of these architectures does not have; a file that sets one is another model.
constexpr std::array<std::string_view, 15> kRefusedKeys = {
    "attention.sliding_window",
    "attention.scale",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "use_parallel_residual",
    "logit_scale",
    "embedding_scale",
    "residual_scale",
    "leading_dense_block_count",
    "interleave_moe_layer_step",
    "expert_group_count",
    "expert_shared_count",
    "expert_weights_scale",
};

Result<Architecture> read_architecture(const GgufFile& file) {
  const Result<std::optional<std::string>> name = file.string("general.architecture");
  if (!name) return name.error();
  if (!*name) return invalid_argument("GGUF: general.architecture is missing");
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.gguf_name == **name) return architecture;
  }
  return unsupported(
      fmt::format(
          "GGUF: architecture '{}' is not supported (supported: llama, qwen2, qwen3, qwen2moe, "
          "qwen3moe)",
          printable(**name)
      ),
      "general.architecture"
  );
}

// Copies metadata of one architecture into a config, remembering the first error.
class ConfigWriter {
 public:
  ConfigWriter(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  // For what config.json has a default for, which need not be this model's.
  void require(std::string_view gguf_key) {
    const std::string key = prefix_ + std::string(gguf_key);
    if (error_ || file_.find(key) != nullptr) return;
    error_ = invalid_argument(fmt::format("GGUF: '{}' is missing", key), key);
  }
  void integer(std::string_view gguf_key, std::string_view config_key) {
    put(file_.integer(prefix_ + std::string(gguf_key)), config_key);
  }
  void number(std::string_view gguf_key, std::string_view config_key) {
    put(file_.number(prefix_ + std::string(gguf_key)), config_key);
  }
  void token(std::string_view gguf_key, std::string_view config_key) {
    put(file_.integer(gguf_key), config_key);
  }
  void set(std::string_view config_key, json::value value) {
    config_[config_key] = std::move(value);
  }

  void boolean(std::string_view gguf_key, std::string_view config_key) {
    put(file_.boolean(prefix_ + std::string(gguf_key)), config_key);
  }

  bool has(std::string_view config_key) const { return config_.contains(config_key); }
  std::optional<int64_t> find_integer(std::string_view config_key) const {
    const json::value* value = config_.if_contains(config_key);
    const int64_t* integer = value == nullptr ? nullptr : value->if_int64();
    return integer == nullptr ? std::nullopt : std::optional(*integer);
  }
  double find_number(std::string_view config_key, double otherwise) const {
    const json::value* value = config_.if_contains(config_key);
    return value == nullptr ? otherwise : value->to_number<double>();
  }

  Result<json::object> finish() && {
    if (error_) return *error_;
    return std::move(config_);
  }

 private:
  template <class T>
  void put(const Result<std::optional<T>>& value, std::string_view config_key) {
    if (!value) {
      if (!error_) error_ = value.error();
    } else if (*value) {
      config_[config_key] = **value;
    }
  }

  const GgufFile& file_;
  std::string prefix_;
  json::object config_;
  std::optional<Error> error_;
};

// 0 and false: "none of it".
bool asks_for_nothing(const GgufValue& value) {
  return std::visit(
      [](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_arithmetic_v<T>) return held == T{};
        return false;
      },
      value
  );
}

Result<void> check_refused_keys(
    const GgufFile& file, std::string_view architecture, std::span<const std::string_view> refused
) {
  for (const std::string_view suffix : refused) {
    const std::string key = fmt::format("{}.{}", architecture, suffix);
    const GgufValue* value = file.find(key);
    if (value == nullptr || asks_for_nothing(*value)) continue;
    return unsupported(fmt::format("GGUF: '{}' is not supported", key), key);
  }
  return {};
}

// The first part of a file that was split has the metadata of the whole and some of its tensors.
Result<void> check_is_whole(const GgufFile& file) {
  const Result<std::optional<int64_t>> count = file.integer("split.count");
  if (!count) return count.error();
  if (count->value_or(1) <= 1) return {};
  const Result<std::optional<int64_t>> index = file.integer("split.no");  // from 0
  if (!index) return index.error();
  return unsupported(
      fmt::format(
          "GGUF: this is part {} of {}: join the parts (llama-gguf-split --merge)",
          static_cast<uint64_t>(index->value_or(0)) + 1,
          **count
      ),
      "split.count"
  );
}

Result<void> check_causal(const GgufFile& file, std::string_view architecture) {
  const std::string key = fmt::format("{}.attention.causal", architecture);
  const Result<std::optional<bool>> is_causal = file.boolean(key);
  if (!is_causal) return is_causal.error();
  if (is_causal->value_or(true)) return {};
  return unsupported(
      fmt::format("GGUF: '{}' is false: attention to later tokens is not supported", key), key
  );
}

void write_sizes(const GgufFile& file, ConfigWriter& config) {
  config.require("context_length");
  config.require("attention.layer_norm_rms_epsilon");
  config.integer("embedding_length", "hidden_size");
  config.integer("feed_forward_length", "intermediate_size");
  config.integer("block_count", "num_hidden_layers");
  config.integer("attention.head_count", "num_attention_heads");
  config.integer("attention.head_count_kv", "num_key_value_heads");
  config.integer("attention.key_length", "head_dim");
  config.integer("context_length", "max_position_embeddings");
  config.integer("vocab_size", "vocab_size");
  config.number("attention.layer_norm_rms_epsilon", "rms_norm_eps");
  config.number("rope.freq_base", "rope_theta");
  if (const GgufTensor* embedding = file.find_tensor("token_embd.weight")) {
    config.set("vocab_size", embedding->shape.front());
  }
  config.set("tie_word_embeddings", file.find_tensor("output.weight") == nullptr);
}

// Scores of experts become weights by a softmax in these models; the format knows other ways.
Result<void> check_gating(const GgufFile& file, std::string_view architecture) {
  constexpr int64_t kSoftmax = 1;
  const std::string key = fmt::format("{}.expert_gating_func", architecture);
  const Result<std::optional<int64_t>> function = file.integer(key);
  if (!function) return function.error();
  if (function->value_or(kSoftmax) == kSoftmax) return {};
  return unsupported(fmt::format("GGUF: '{}' is {}, expected 1 (softmax)", key, **function), key);
}

void write_experts(const Architecture& architecture, ConfigWriter& config) {
  config.integer("expert_count", "num_experts");
  config.integer("expert_used_count", "num_experts_per_tok");
  config.integer("expert_feed_forward_length", "moe_intermediate_size");
  config.integer("expert_shared_feed_forward_length", "shared_expert_intermediate_size");
  config.set("norm_topk_prob", architecture.normalizes_topk);
  config.boolean("expert_weights_norm", "norm_topk_prob");
}

// qwen3's head_dim has a default of its own in config.json; the format's default is this quotient.
void write_head_dim(ConfigWriter& config) {
  if (config.find_integer("head_dim")) return;
  const std::optional<int64_t> hidden = config.find_integer("hidden_size");
  const std::optional<int64_t> heads = config.find_integer("num_attention_heads");
  if (hidden && heads && *heads > 0) config.set("head_dim", *hidden / *heads);
}

// Which control tokens end a text or a turn in the templates of these models. A file names one or
// two of them by keys, and readers have come to know the others by their texts.
constexpr std::array<std::string_view, 9> kEndTexts = {
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<end_of_turn>",
    "</s>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",  // DeepSeek's
};

// The ids of control tokens with those texts.
Result<std::vector<int64_t>> find_end_texts(const GgufFile& file) {
  constexpr int32_t kControl = 3;  // tokenizer.ggml.token_type
  const auto texts = file.strings("tokenizer.ggml.tokens");
  if (!texts) return texts.error();
  const auto types = file.integers("tokenizer.ggml.token_type");
  if (!types) return types.error();
  std::vector<int64_t> ids;
  if (!*texts || !*types) return ids;
  for (size_t id = 0; id < std::min((*texts)->size(), (*types)->size()); ++id) {
    const bool is_control = (**types)[id] == kControl;
    if (is_control && std::ranges::find(kEndTexts, (**texts)[id]) != kEndTexts.end()) {
      ids.push_back(static_cast<int64_t>(id));
    }
  }
  return ids;
}

Result<void> write_tokens(const GgufFile& file, ConfigWriter& config) {
  config.set("bos_token_id", nullptr);
  config.token("tokenizer.ggml.bos_token_id", "bos_token_id");
  std::vector<int64_t> ends;
  for (const std::string_view key :
       {"tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id",
        "tokenizer.ggml.eom_token_id"}) {
    const Result<std::optional<int64_t>> id = file.integer(key);
    if (!id) return id.error();
    if (*id) ends.push_back(**id);
  }
  const Result<std::vector<int64_t>> by_text = find_end_texts(file);
  if (!by_text) return by_text.error();
  ends.insert(ends.end(), by_text->begin(), by_text->end());
  json::array eos;
  for (const int64_t id : ends) {
    if (std::ranges::find(eos, json::value(id)) == eos.end()) eos.push_back(id);
  }
  config.set("eos_token_id", eos);
  return {};
}

// The format states no type for the whole model; an unquantized embedding shows it.
void write_dtype(const GgufFile& file, ConfigWriter& config) {
  const GgufTensor* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) return;
  if (embedding->storage == StorageType::kF32) config.set("torch_dtype", "float32");
  if (embedding->storage == StorageType::kF16) config.set("torch_dtype", "float16");
  if (embedding->storage == StorageType::kBF16) config.set("torch_dtype", "bfloat16");
}

// `rope_type` linear, yarn and so on as the file names them: parse_model_config refuses what it
// does not know. A factor without a type is one of linear scaling, as llama.cpp takes it.
Result<void> write_rope_type(
    const GgufFile& file, std::string_view architecture, ConfigWriter& config
) {
  const std::string prefix = fmt::format("{}.rope.", architecture);
  const Result<std::optional<std::string>> type = file.string(prefix + "scaling.type");
  if (!type) return type.error();
  bool is_scaled = false;
  for (const std::string_view key : {"scaling.factor", "scale_linear"}) {
    const Result<std::optional<double>> factor = file.number(prefix + std::string(key));
    if (!factor) return factor.error();
    is_scaled = is_scaled || (*factor && **factor != 1.0 && **factor != 0.0);
  }
  if (*type && **type != "none") {
    config.set("rope_scaling", json::object({{"rope_type", **type}}));
  } else if (!*type && is_scaled) {
    config.set("rope_scaling", json::object({{"rope_type", "linear"}}));
  }
  const std::string magnitude = prefix + "scaling.attn_factor";
  const Result<std::optional<double>> attention_factor = file.number(magnitude);
  if (!attention_factor) return attention_factor.error();
  if (attention_factor->value_or(1.0) != 1.0) {
    return unsupported(
        fmt::format("GGUF: '{}' is not supported, except as 1", magnitude), magnitude
    );
  }
  const Result<std::optional<int64_t>> rotated = file.integer(prefix + "dimension_count");
  if (!rotated) return rotated.error();
  const std::optional<int64_t> head_dim = config.find_integer("head_dim");
  if (*rotated && head_dim && *head_dim > 0 && **rotated != *head_dim) {
    config.set(
        "partial_rotary_factor", static_cast<double>(**rotated) / static_cast<double>(*head_dim)
    );
  }
  return {};
}

// The divisor of one rotary frequency by Llama 3.1's formula with its published parameters.
double llama3_divisor(double frequency, double factor) {
  constexpr double kLow = 1.0;
  constexpr double kHigh = 4.0;
  constexpr double kContext = 8192.0;
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  if (wavelength < kContext / kHigh) return 1.0;
  if (wavelength > kContext / kLow) return factor;
  const double smooth = (kContext / wavelength - kLow) / (kHigh - kLow);
  return 1.0 / ((1.0 - smooth) / factor + smooth);
}

// The file holds the divisors themselves and not the parameters that they come from. The longest
// wavelength is divided by the whole factor; if all others follow from it, the formula is known.
Result<void> write_rope_divisors(const GgufFile& file, ConfigWriter& config) {
  const GgufTensor* tensor = file.find_tensor("rope_freqs.weight");
  // Another scaling that the file states is refused by its own name.
  if (tensor == nullptr || config.has("rope_scaling")) return {};
  const Error refused = unsupported(
      "GGUF: the rotary factors in 'rope_freqs.weight' are not those of Llama 3.1's formula",
      "rope_freqs.weight"
  );
  const int64_t head_dim = config.find_integer("head_dim").value_or(0);
  const bool usable = tensor->storage == StorageType::kF32 && tensor->shape.size() == 1 &&
                      tensor->shape.front() * 2 == head_dim;
  if (!usable) return refused;
  std::vector<float> divisors(static_cast<size_t>(tensor->shape.front()));
  dequantize(StorageType::kF32, tensor->bytes, divisors);
  const double factor = divisors.back();
  if (!(factor > 1.0) || !std::isfinite(factor)) return refused;
  const double theta = config.find_number("rope_theta", 10000.0);
  for (size_t i = 0; i < divisors.size(); ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(head_dim);
    const double expected = llama3_divisor(std::pow(theta, -exponent), factor);
    // The formula has a kink where float32 may fall on the other side; it is continuous there.
    const double difference = std::abs(static_cast<double>(divisors[i]) - expected);
    if (!(difference <= 1e-3 * expected)) return refused;
  }
  config.set(
      "rope_scaling",
      json::object({
          {"rope_type", "llama3"},
          {"factor", factor},
          {"low_freq_factor", 1.0},
          {"high_freq_factor", 4.0},
          {"original_max_position_embeddings", 8192},
      })
  );
  return {};
}

}  // namespace

Result<json::object> gguf_config(const GgufFile& file) {
  if (Result<void> whole = check_is_whole(file); !whole) return whole.error();
  const Result<Architecture> architecture = read_architecture(file);
  if (!architecture) return architecture.error();
  const std::string_view name = architecture->gguf_name;
  if (Result<void> done = check_refused_keys(file, name, kRefusedKeys); !done) return done.error();
  if (Result<void> causal = check_causal(file, name); !causal) return causal.error();
  const Result<void> experts = architecture->has_experts
                                   ? check_gating(file, name)
                                   : check_refused_keys(file, name, {{"expert_count"}});
  if (!experts) return experts.error();

  ConfigWriter config(file, name);
  config.set("model_type", json::string(architecture->model_type));
  config.set("architectures", json::array({json::string(architecture->class_name)}));
  config.set("hidden_act", "silu");
  config.set("attention_bias", file.find_tensor("blk.0.attn_q.bias") != nullptr);
  write_sizes(file, config);
  if (architecture->has_experts) write_experts(*architecture, config);
  write_head_dim(config);
  write_dtype(file, config);
  const Result<void> tokens = write_tokens(file, config);
  if (!tokens) return tokens.error();
  const Result<void> rope_type = write_rope_type(file, name, config);
  if (!rope_type) return rope_type.error();
  const Result<void> divisors = write_rope_divisors(file, config);
  if (!divisors) return divisors.error();
  return std::move(config).finish();
}

}  // namespace millrace
