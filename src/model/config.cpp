#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/json_fields.h"
#include "base/math.h"
#include "checkpoint/printable.h"
#include "model/rope_fields.h"

namespace millrace {
namespace {

constexpr IntRange kSize{.min = 1, .max = 1 << 24};
constexpr IntRange kLayers{.min = 1, .max = 1024};
constexpr IntRange kHeads{.min = 1, .max = 1 << 14};
constexpr IntRange kHeadDim{.min = 2, .max = 1024};
constexpr IntRange kExperts{.min = 1, .max = 4096};
constexpr int64_t kExpertsInAllMax = 1 << 17;  // of all layers: the list of tensors stays small
constexpr double kParametersMax = 0x1.0p50;    // so that no sum of bytes overflows an int64_t

struct Family {
  ModelFamily family;
  std::string_view model_type;
  std::string_view class_name;
  bool qkv_bias;  // the default of its key
  std::string_view qkv_bias_key;
  bool out_bias;  // the same key also switches the bias of the output projection
  bool qk_norm;
  std::optional<int64_t> head_dim;  // the default; none: hidden_size / num_attention_heads
  int64_t max_position_embeddings;
  bool experts;
};

constexpr std::array kFamilies = {
    Family{
        .family = ModelFamily::kLlama,
        .model_type = "llama",
        .class_name = "LlamaForCausalLM",
        .qkv_bias = false,
        .qkv_bias_key = "attention_bias",
        .out_bias = true,
        .qk_norm = false,
        .head_dim = std::nullopt,
        .max_position_embeddings = 2048,
        .experts = false,
    },
    Family{
        .family = ModelFamily::kQwen2,
        .model_type = "qwen2",
        .class_name = "Qwen2ForCausalLM",
        .qkv_bias = true,
        .qkv_bias_key = "attention_bias",
        .out_bias = false,
        .qk_norm = false,
        .head_dim = std::nullopt,
        .max_position_embeddings = 32768,
        .experts = false,
    },
    Family{
        .family = ModelFamily::kQwen3,
        .model_type = "qwen3",
        .class_name = "Qwen3ForCausalLM",
        .qkv_bias = false,
        .qkv_bias_key = "attention_bias",
        .out_bias = true,
        .qk_norm = true,
        .head_dim = 128,
        .max_position_embeddings = 32768,
        .experts = false,
    },
    Family{
        .family = ModelFamily::kQwen2Moe,
        .model_type = "qwen2_moe",
        .class_name = "Qwen2MoeForCausalLM",
        .qkv_bias = true,
        .qkv_bias_key = "qkv_bias",
        .out_bias = false,
        .qk_norm = false,
        .head_dim = std::nullopt,
        .max_position_embeddings = 32768,
        .experts = true,
    },
    Family{
        .family = ModelFamily::kQwen3Moe,
        .model_type = "qwen3_moe",
        .class_name = "Qwen3MoeForCausalLM",
        .qkv_bias = false,
        .qkv_bias_key = "attention_bias",
        .out_bias = true,
        .qk_norm = true,
        .head_dim = std::nullopt,
        .max_position_embeddings = 32768,
        .experts = true,
    },
};

std::string known_architectures() {
  std::string known;
  for (const Family& family : kFamilies) {
    if (!known.empty()) known += ", ";
    known += family.class_name;
  }
  return known;
}

// The first architecture decides where there is one; else the model type.
Result<Family> find_family(const json::object& config) {
  JsonFields fields(config);
  const std::optional<std::string> model_type = fields.string("model_type");
  if (fields.error()) return *fields.error();
  std::optional<std::string> class_name;
  if (const json::value* value = fields.find("architectures")) {
    const json::array* names = value->if_array();
    if (names == nullptr || names->size() != 1 || !names->front().is_string()) {
      return invalid_argument("'architectures' must be a list of one string", "architectures");
    }
    class_name = std::string(names->front().get_string());
  }
  for (const Family& family : kFamilies) {
    if (class_name ? *class_name == family.class_name : model_type == family.model_type) {
      return family;
    }
  }
  if (!class_name && !model_type) {
    return invalid_argument("'architectures' and 'model_type' are missing", "architectures");
  }
  return unsupported(
      fmt::format(
          "architecture '{}' is not supported (supported: {})",
          printable(class_name ? *class_name : *model_type),
          known_architectures()
      ),
      class_name ? "architectures" : "model_type"
  );
}

void read_sizes(JsonFields& fields, const Family& family, ModelConfig& config) {
  config.hidden_size = fields.required_integer("hidden_size", kSize);
  config.intermediate_size = fields.required_integer("intermediate_size", kSize);
  config.num_layers = fields.required_integer("num_hidden_layers", kLayers);
  config.num_heads = fields.required_integer("num_attention_heads", kHeads);
  config.num_kv_heads = fields.integer("num_key_value_heads", kHeads).value_or(config.num_heads);
  config.vocab_size = fields.required_integer("vocab_size", kSize);
  config.max_position_embeddings = fields.integer("max_position_embeddings", kPositions)
                                       .value_or(family.max_position_embeddings);
  config.rms_norm_eps = fields.number("rms_norm_eps", {.min = 0.0, .max = 1.0}).value_or(1e-6);
  if (fields.error()) return;

  if (config.num_heads % config.num_kv_heads != 0) {
    fields.refuse(
        ErrorCode::kInvalidArgument,
        "num_key_value_heads",
        fmt::format(
            "'num_attention_heads' {} is not a multiple of 'num_key_value_heads' {}",
            config.num_heads,
            config.num_kv_heads
        )
    );
  }
  const std::optional<int64_t> head_dim = fields.integer("head_dim", kHeadDim);
  if (!head_dim && !family.head_dim && config.hidden_size % config.num_heads != 0) {
    fields.refuse(
        ErrorCode::kInvalidArgument,
        "head_dim",
        "'head_dim' is missing and 'hidden_size' is not a multiple of 'num_attention_heads'"
    );
  }
  config.head_dim =
      head_dim.value_or(family.head_dim.value_or(config.hidden_size / config.num_heads));
  if (config.head_dim % 2 != 0 || config.head_dim < kHeadDim.min ||
      config.head_dim > kHeadDim.max) {
    fields.refuse(
        ErrorCode::kInvalidArgument,
        "head_dim",
        fmt::format(
            "the size of a head is {}; it must be even, {} to {}",
            config.head_dim,
            kHeadDim.min,
            kHeadDim.max
        )
    );
  }
}

void read_flags(JsonFields& fields, const Family& family, ModelConfig& config) {
  config.attention_bias = fields.boolean(family.qkv_bias_key).value_or(family.qkv_bias);
  config.attention_out_bias = config.attention_bias && family.out_bias;
  config.qk_norm = family.qk_norm;
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings").value_or(false);
  if (family.family == ModelFamily::kLlama) {
    config.mlp_bias = fields.boolean("mlp_bias").value_or(false);
  }
}

void refuse_activation(JsonFields& fields) {
  const std::string activation = fields.string("hidden_act").value_or("silu");
  if (activation == "silu" || activation == "swish") return;
  fields.refuse(
      ErrorCode::kUnsupported,
      "hidden_act",
      fmt::format("activation '{}' is not supported (supported: silu)", printable(activation))
  );
}

// What `millrace quantize` writes: {"quant_method": "millrace", "format": "int8", "version": 1}.
void read_stored_quantization(JsonFields& fields, JsonFields quantization, ModelConfig& config) {
  const std::string format = quantization.string("format").value_or("");
  const std::optional<int64_t> version = quantization.integer("version", {.min = 1});
  config.stored_quantization = quantized_format_from_name(format);
  if (!config.stored_quantization) {
    fields.refuse(
        ErrorCode::kUnsupported,
        "quantization_config",
        fmt::format("format '{}' is not supported (supported: int8, int4)", printable(format))
    );
  } else if (version != stored_weights_version(*config.stored_quantization)) {
    fields.refuse(
        ErrorCode::kUnsupported,
        "quantization_config",
        fmt::format(
            "the layout of another version of millrace ({}, expected {}): quantize the original "
            "again",
            version.value_or(0),
            stored_weights_version(*config.stored_quantization)
        )
    );
  }
}

void read_quantization(JsonFields& fields, ModelConfig& config) {
  for (const std::string_view key : {"quantization_config", "compression_config"}) {
    const json::object* quantization = fields.object(key);
    if (quantization == nullptr) continue;
    const std::string method = JsonFields(*quantization).string("quant_method").value_or("unknown");
    if (method == "millrace" && key == "quantization_config") {
      read_stored_quantization(fields, JsonFields(*quantization), config);
      continue;
    }
    constexpr std::string_view kSupported = "awq, gptq, fp8, compressed-tensors";
    const std::string what = fmt::format("weights quantized by '{}' are not", printable(method));
    fields.refuse(
        ErrorCode::kUnsupported, key, fmt::format("{} supported ({} are)", what, kSupported)
    );
  }
}

// Another kind of attention that some layers have.
void refuse_layer_types(JsonFields& fields, const ModelConfig& config) {
  const json::value* layer_types = fields.find("layer_types");
  if (layer_types == nullptr) return;
  const json::array* types = layer_types->if_array();
  if (types == nullptr || types->size() < static_cast<size_t>(config.num_layers)) {
    fields.refuse(
        ErrorCode::kInvalidArgument,
        "layer_types",
        fmt::format("'layer_types' must be a list of the types of {} layers", config.num_layers)
    );
    return;
  }
  for (const json::value& type : *types) {
    const std::string name = type.is_string() ? std::string(type.get_string()) : "?";
    if (name == "full_attention") continue;
    fields.refuse(
        ErrorCode::kUnsupported,
        "layer_types",
        fmt::format(
            "layers of type '{}' are not supported (supported: full_attention)", printable(name)
        )
    );
  }
}

// A window is harmless where no layer uses it: the Qwen2 configurations name one and switch it off.
void refuse_sliding_window(JsonFields& fields, const Family& family, const ModelConfig& config) {
  const bool is_qwen = family.family != ModelFamily::kLlama;
  const bool in_use = fields.boolean("use_sliding_window").value_or(!is_qwen);
  const std::optional<int64_t> window = fields.integer("sliding_window", {.min = 0});
  // Qwen2 and Qwen3 slide from this layer on; the mixtures have other rules, and none is known to
  // be published with a window in use.
  const std::optional<int64_t> first_layer = fields.integer("max_window_layers", {.min = 0});
  const bool reaches = family.experts || !is_qwen || first_layer.value_or(28) < config.num_layers;
  if (in_use && window && *window > 0 && reaches) {
    fields.refuse(
        ErrorCode::kUnsupported,
        "sliding_window",
        fmt::format("sliding windows are not supported ({} tokens here)", *window)
    );
  }
  refuse_layer_types(fields, config);
}

void read_moe(JsonFields& fields, ModelConfig& config) {
  MoeConfig moe;
  const bool has_old_key = fields.find("num_experts") != nullptr;
  moe.num_experts =
      fields.required_integer(has_old_key ? "num_experts" : "num_local_experts", kExperts);
  moe.num_experts_per_token = fields.required_integer("num_experts_per_tok", kExperts);
  moe.expert_intermediate_size = fields.required_integer("moe_intermediate_size", kSize);
  if (config.family == ModelFamily::kQwen2Moe) {
    moe.shared_expert_intermediate_size =
        fields.required_integer("shared_expert_intermediate_size", {.min = 0, .max = kSize.max});
  }
  moe.decoder_sparse_step = fields.integer("decoder_sparse_step", kLayers).value_or(1);
  moe.dense_layers = fields.integers("mlp_only_layers", {.min = 0, .max = kLayers.max});
  moe.normalize_topk = fields.boolean("norm_topk_prob").value_or(false);
  if (fields.error()) return;
  if (moe.num_experts_per_token > moe.num_experts) {
    fields.refuse(
        ErrorCode::kInvalidArgument,
        "num_experts_per_tok",
        fmt::format(
            "'num_experts_per_tok' {} is more than the {} experts",
            moe.num_experts_per_token,
            moe.num_experts
        )
    );
  }
  if (moe.num_experts * config.num_layers > kExpertsInAllMax) {
    fields.refuse(
        ErrorCode::kInvalidArgument,
        "num_experts",
        fmt::format(
            "{} experts in {} layers are more than {} in all",
            moe.num_experts,
            config.num_layers,
            kExpertsInAllMax
        )
    );
  }
  config.moe = std::move(moe);
}

void read_tokens(JsonFields& fields, const json::object& object, ModelConfig& config) {
  config.eos_token_ids = fields.token_ids("eos_token_id", config.vocab_size);
  const std::vector<TokenId> bos = fields.token_ids("bos_token_id", config.vocab_size);
  if (!bos.empty()) config.bos_token_id = bos.front();
  // Llama's configuration class alone has ids of its own for absent keys. null means none.
  if (config.family != ModelFamily::kLlama || config.vocab_size < 3) return;
  if (!object.contains("bos_token_id")) config.bos_token_id = 1;
  if (!object.contains("eos_token_id")) config.eos_token_ids = {2};
}

void read_dtype(JsonFields& fields, ModelConfig& config) {
  const std::string_view key = fields.find("dtype") != nullptr ? "dtype" : "torch_dtype";
  const std::optional<std::string> name = fields.string(key);
  if (!name) return;
  config.dtype = dtype_from_name(*name);
  if (!config.dtype) {
    fields.refuse(
        ErrorCode::kUnsupported,
        key,
        fmt::format(
            "dtype '{}' is not supported (supported: float32, float16, bfloat16)", printable(*name)
        )
    );
  }
}

// An upper bound in floating point, where nothing overflows.
void refuse_monsters(JsonFields& fields, const ModelConfig& config) {
  const auto hidden = static_cast<double>(config.hidden_size);
  double feed_forward = static_cast<double>(config.intermediate_size);
  if (config.moe) {
    feed_forward += static_cast<double>(config.moe->num_experts) *
                        static_cast<double>(config.moe->expert_intermediate_size) +
                    static_cast<double>(config.moe->shared_expert_intermediate_size);
  }
  const double attention = 2.0 * static_cast<double>(config.q_size() + config.kv_size());
  const double layer = hidden * (attention + 3.0 * feed_forward + 4096.0);
  const double total = layer * static_cast<double>(config.num_layers) +
                       2.0 * hidden * static_cast<double>(config.vocab_size);
  if (total <= kParametersMax) return;
  fields.refuse(
      ErrorCode::kInvalidArgument,
      "hidden_size",
      fmt::format("the sizes make a model of {:.1e} parameters; at most 2^50", total)
  );
}

}  // namespace

std::string_view name_of(ModelFamily family) {
  return kFamilies[static_cast<size_t>(family)].model_type;
}

int64_t ModelConfig::head_size() const {
  if (!num_head_parts) return vocab_size;
  constexpr auto kPanelRows = static_cast<int64_t>(QuantizedMatrix::kPanelRows);
  return round_up(div_ceil(vocab_size, *num_head_parts), kPanelRows);
}

bool ModelConfig::has_experts(int64_t layer) const {
  if (!moe || (layer + 1) % moe->decoder_sparse_step != 0) return false;
  return std::find(moe->dense_layers.begin(), moe->dense_layers.end(), layer) ==
         moe->dense_layers.end();
}

Result<ModelConfig> parse_model_config(const json::object& object) {
  const Result<Family> family = find_family(object);
  if (!family) return family.error();
  ModelConfig config;
  config.family = family->family;

  JsonFields fields(object);
  read_quantization(fields, config);
  refuse_activation(fields);
  read_sizes(fields, *family, config);
  if (fields.error()) return *fields.error();
  read_flags(fields, *family, config);
  refuse_sliding_window(fields, *family, config);
  const Result<void> rope = read_rope(fields, config);
  if (!rope) return rope.error();
  if (family->experts) read_moe(fields, config);
  read_tokens(fields, object, config);
  read_dtype(fields, config);
  refuse_monsters(fields, config);
  if (fields.error()) return *fields.error();
  return config;
}

}  // namespace millrace
