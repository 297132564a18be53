// GGUF tensors under Hugging Face's names.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/gguf_model.h"
#include "checkpoint/printable.h"
#include "checkpoint/tensor_index.h"

namespace millrace {
namespace {

struct NamePair {
  std::string_view gguf;
  std::string_view hugging_face;
};

constexpr std::array kModelNames = {
    NamePair{"token_embd", "model.embed_tokens"},
    NamePair{"output_norm", "model.norm"},
    NamePair{"output", "lm_head"},
};

constexpr std::array kLayerNames = {
    NamePair{"attn_norm", "input_layernorm"},
    NamePair{"attn_q", "self_attn.q_proj"},
    NamePair{"attn_k", "self_attn.k_proj"},
    NamePair{"attn_v", "self_attn.v_proj"},
    NamePair{"attn_output", "self_attn.o_proj"},
    NamePair{"attn_q_norm", "self_attn.q_norm"},
    NamePair{"attn_k_norm", "self_attn.k_norm"},
    NamePair{"ffn_norm", "post_attention_layernorm"},
    NamePair{"ffn_gate", "mlp.gate_proj"},
    NamePair{"ffn_up", "mlp.up_proj"},
    NamePair{"ffn_down", "mlp.down_proj"},
    NamePair{"ffn_gate_inp", "mlp.gate"},
    NamePair{"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
    NamePair{"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
    NamePair{"ffn_up_shexp", "mlp.shared_expert.up_proj"},
    NamePair{"ffn_down_shexp", "mlp.shared_expert.down_proj"},
};

// Of all experts of a layer in one tensor [experts, out, in].
constexpr std::array kExpertNames = {
    NamePair{"ffn_gate_exps", "gate_proj"},
    NamePair{"ffn_up_exps", "up_proj"},
    NamePair{"ffn_down_exps", "down_proj"},
};
// So that the list of tensors stays small: of one tensor, and of all, which are three for each
// layer of the models that parse_model_config() takes.
constexpr int64_t kExpertsMax = 4096;
constexpr int64_t kExpertMatricesMax = 3 << 17;

template <size_t N>
std::string_view lookup(const std::array<NamePair, N>& names, std::string_view gguf) {
  for (const NamePair& pair : names) {
    if (pair.gguf == gguf) return pair.hugging_face;
  }
  return {};
}

// "blk.3.attn_q.weight" in parts; none for a tensor that is no layer's.
struct LayerTensorName {
  uint32_t layer = 0;
  std::string_view part;    // "attn_q"
  std::string_view suffix;  // ".weight"
};
std::optional<LayerTensorName> parse_layer_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  const std::string_view stem = name.substr(0, dot);
  if (dot == std::string_view::npos || !stem.starts_with("blk.")) return std::nullopt;
  LayerTensorName parsed;
  const char* const end = stem.data() + stem.size();
  const auto [rest, error] = std::from_chars(stem.data() + 4, end, parsed.layer);
  if (error != std::errc() || rest == end || *rest != '.') return std::nullopt;
  parsed.part = std::string_view(rest + 1, static_cast<size_t>(end - rest - 1));
  parsed.suffix = name.substr(dot);
  return parsed;
}

bool is_known_suffix(std::string_view suffix) {
  return suffix == ".weight" || suffix == ".bias";
}

// "blk.3.attn_q.weight" to "model.layers.3.self_attn.q_proj.weight". An unknown name stays as it
// is, so that check_tensors can complain about it in the file's own words.
std::string hugging_face_name(std::string_view name) {
  if (const auto parsed = parse_layer_name(name)) {
    const std::string_view found = lookup(kLayerNames, parsed->part);
    if (found.empty() || !is_known_suffix(parsed->suffix)) return std::string(name);
    return fmt::format("model.layers.{}.{}{}", parsed->layer, found, parsed->suffix);
  }
  const size_t dot = name.rfind('.');
  const std::string_view suffix = dot == std::string_view::npos ? "" : name.substr(dot);
  const std::string_view found = lookup(kModelNames, name.substr(0, dot));
  if (found.empty() || !is_known_suffix(suffix)) return std::string(name);
  return fmt::format("{}{}", found, suffix);
}

// Whether the values follow from the metadata and so are no weights.
bool is_derived(std::string_view name) {
  return name == "rope_freqs.weight" || name.ends_with(".attn_rot_embd.weight");
}

// Where row `row` of Hugging Face's order lies in the file. A head's rows are (half, index) there
// and (index, half) here: halves of a rotated pair stand side by side for interleaved embeddings.
int64_t permuted_row(int64_t row, int64_t head_dim) {
  const int64_t half_dim = head_dim / 2;
  const int64_t within = row % head_dim;
  return row - within + 2 * (within % half_dim) + within / half_dim;
}

// The bytes of a tensor, and how its rows are ordered.
struct Placement {
  std::span<const std::byte> bytes;
  std::optional<int64_t> interleaved_head_dim;  // of llama's q and k
};

class GgufSource : public WeightSource {
 public:
  GgufSource(MappedFile file, TensorIndex index, std::vector<Placement> placements)
      : file_(std::move(file)), index_(std::move(index)), placements_(std::move(placements)) {}

  std::span<const TensorInfo> tensors() const override { return index_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }

  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    const Placement& placement = placements_[index_.position_of(tensor)];
    check_rows(tensor, row_begin, num_rows, out.size());
    if (placement.interleaved_head_dim && tensor.shape.size() < 2) {
      if (num_rows == 1) read_interleaved_vector(tensor, placement, out);
      return;
    }
    const auto row_length = static_cast<size_t>(tensor.row_length());
    for_stored_rows(tensor, placement, {row_begin, num_rows}, [&](size_t i, const auto& stored) {
      dequantize(tensor.storage, stored, out.subspan(i * row_length, num_elements(tensor, stored)));
    });
  }

  CodeForm code_form(const TensorInfo& tensor) const override {
    return tensor.shape.size() == 2 ? millrace::code_form(tensor.storage) : CodeForm{};
  }

  void read_codes(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, const StoredCodes& out
  ) const override {
    const Placement& placement = placements_[index_.position_of(tensor)];
    check_rows(tensor, row_begin, num_rows, out.codes.size());
    const auto row_length = static_cast<size_t>(tensor.row_length());
    for_stored_rows(tensor, placement, {row_begin, num_rows}, [&](size_t i, const auto& stored) {
      const size_t count = num_elements(tensor, stored);
      const size_t first_scale = i * row_length / out.num_inputs;
      const size_t num_scales = count / out.num_inputs;
      const StoredCodes part = {
          .codes = out.codes.subspan(i * row_length, count),
          .scales = out.scales.subspan(first_scale, num_scales),
          .bases = out.bases.subspan(first_scale, num_scales),
          .num_inputs = out.num_inputs,
      };
      millrace::read_codes(tensor.storage, stored, part);
    });
  }

 private:
  struct Rows {
    int64_t begin = 0;
    int64_t count = 0;
  };

  // How many are stored in so many bytes.
  static size_t num_elements(const TensorInfo& tensor, std::span<const std::byte> stored) {
    const BlockLayout layout = block_layout(tensor.storage);
    return stored.size() / layout.block_bytes * layout.block_elements;
  }

  // read(i, bytes): of the i-th of `rows` and of those that lie behind it in the file.
  template <class Read>
  static void for_stored_rows(
      const TensorInfo& tensor, const Placement& placement, Rows rows, const Read& read
  ) {
    const BlockLayout layout = block_layout(tensor.storage);
    const size_t row_bytes =
        static_cast<size_t>(tensor.row_length()) / layout.block_elements * layout.block_bytes;
    const auto stored = [&](int64_t row, int64_t count) {
      return placement.bytes.subspan(
          static_cast<size_t>(row) * row_bytes, static_cast<size_t>(count) * row_bytes
      );
    };
    if (!placement.interleaved_head_dim) return read(0, stored(rows.begin, rows.count));
    for (int64_t i = 0; i < rows.count; ++i) {
      const int64_t row = permuted_row(rows.begin + i, *placement.interleaved_head_dim);
      read(static_cast<size_t>(i), stored(row, 1));
    }
  }

  // A bias of q or k: its elements are permuted as the rows of the matrix are.
  static void read_interleaved_vector(
      const TensorInfo& tensor, const Placement& placement, std::span<float> out
  ) {
    std::vector<float> stored(out.size());
    dequantize(tensor.storage, placement.bytes, stored);
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t from = permuted_row(static_cast<int64_t>(i), *placement.interleaved_head_dim);
      out[i] = stored[static_cast<size_t>(from)];
    }
  }

  MappedFile file_;  // placements_ lie within it
  TensorIndex index_;
  std::vector<Placement> placements_;  // by position in index_
};

// The head's size of each of llama's interleaved tensors; none for other models and tensors.
class Interleaving {
 public:
  static Result<Interleaving> read(const GgufFile& file) {
    Interleaving interleaving;
    const Result<std::optional<std::string>> name = file.string("general.architecture");
    if (!name) return name.error();
    if (*name != "llama") return interleaving;
    const Result<std::optional<int64_t>> heads = file.integer("llama.attention.head_count");
    if (!heads) return heads.error();
    const Result<std::optional<int64_t>> kv_heads = file.integer("llama.attention.head_count_kv");
    if (!kv_heads) return kv_heads.error();
    interleaving.is_llama_ = true;
    interleaving.num_heads_ = heads->value_or(0);
    interleaving.num_kv_heads_ = kv_heads->value_or(interleaving.num_heads_);
    return interleaving;
  }

  Result<std::optional<int64_t>> head_dim(const GgufTensor& tensor) const {
    const bool is_q = tensor.name.find(".attn_q.") != std::string::npos;
    const bool is_k = tensor.name.find(".attn_k.") != std::string::npos;
    if (!is_llama_ || (!is_q && !is_k)) return std::optional<int64_t>();
    const int64_t num_heads = is_q ? num_heads_ : num_kv_heads_;
    const int64_t num_rows = tensor.shape.front();
    if (num_heads <= 0 || num_rows % num_heads != 0 || num_rows / num_heads % 2 != 0) {
      return invalid_argument(
          fmt::format(
              "GGUF: tensor '{}' has {} rows, which are not {} heads of an even size",
              printable(tensor.name),
              num_rows,
              num_heads
          ),
          printable(tensor.name)
      );
    }
    return std::optional(num_rows / num_heads);
  }

 private:
  bool is_llama_ = false;
  int64_t num_heads_ = 0;
  int64_t num_kv_heads_ = 0;
};

// The tensors of a file as Hugging Face's, each with its place.
struct Listing {
  std::vector<TensorInfo> infos;
  std::vector<Placement> placements;

  void add(std::string name, const GgufTensor& tensor, std::vector<int64_t> shape, Placement at) {
    TensorInfo info;
    info.name = std::move(name);
    info.storage = tensor.storage;
    info.shape = std::move(shape);
    if (tensor.storage == StorageType::kOther) info.storage_name = tensor.type_name;
    infos.push_back(std::move(info));
    placements.push_back(at);
  }
};

// A tensor of all experts of a layer.
struct ExpertTensorName {
  uint32_t layer = 0;
  std::string_view name;  // "gate_proj"
};
std::optional<ExpertTensorName> parse_expert_name(const GgufTensor& tensor) {
  const auto parsed = parse_layer_name(tensor.name);
  const std::string_view name = parsed ? lookup(kExpertNames, parsed->part) : std::string_view();
  const bool is_of_experts =
      !name.empty() && parsed->suffix == ".weight" && tensor.shape.size() == 3;
  if (!is_of_experts) return std::nullopt;
  return ExpertTensorName{parsed->layer, name};
}

// A few bytes of a file say of how many experts a tensor is, and each becomes an entry of the list.
Result<void> check_num_experts(const GgufFile& file) {
  int64_t num_matrices = 0;
  for (const GgufTensor& tensor : file.tensors()) {
    if (!parse_expert_name(tensor)) continue;
    const int64_t num_experts = tensor.shape[0];
    if (num_experts > kExpertsMax) {
      return invalid_argument(
          fmt::format(
              "GGUF: tensor '{}' is of {} experts, at most {} are read",
              printable(tensor.name),
              num_experts,
              kExpertsMax
          ),
          printable(tensor.name)
      );
    }
    num_matrices += num_experts;
  }
  if (num_matrices <= kExpertMatricesMax) return {};
  return invalid_argument(fmt::format(
      "GGUF: the experts of all layers have {} matrices, at most {} are read",
      num_matrices,
      kExpertMatricesMax
  ));
}

// A tensor of all experts of a layer as one for each of them; false: it is another tensor.
bool list_experts(const GgufTensor& tensor, Listing& listing) {
  const std::optional<ExpertTensorName> parsed = parse_expert_name(tensor);
  if (!parsed) return false;
  const int64_t num_experts = tensor.shape[0];
  const size_t expert_bytes = tensor.bytes.size() / static_cast<size_t>(num_experts);
  for (int64_t i = 0; i < num_experts; ++i) {
    const size_t begin = static_cast<size_t>(i) * expert_bytes;
    listing.add(
        fmt::format("model.layers.{}.mlp.experts.{}.{}.weight", parsed->layer, i, parsed->name),
        tensor,
        {tensor.shape[1], tensor.shape[2]},
        {.bytes = tensor.bytes.subspan(begin, expert_bytes), .interleaved_head_dim = {}}
    );
  }
  return true;
}

// A matrix of one row is a vector in the format.
std::vector<int64_t> hugging_face_shape(const GgufTensor& tensor, std::string_view name) {
  if (name.ends_with(".mlp.shared_expert_gate.weight") && tensor.shape.size() == 1) {
    return {1, tensor.shape[0]};
  }
  return tensor.shape;
}

}  // namespace

Result<std::unique_ptr<WeightSource>> gguf_weights(MappedFile mapped, const GgufFile& file) {
  const Result<Interleaving> interleaving = Interleaving::read(file);
  if (!interleaving) return interleaving.error();
  if (const Result<void> checked = check_num_experts(file); !checked) return checked.error();
  Listing listing;
  for (const GgufTensor& tensor : file.tensors()) {
    if (is_derived(tensor.name)) continue;
    if (list_experts(tensor, listing)) continue;
    const Result<std::optional<int64_t>> head_dim = interleaving->head_dim(tensor);
    if (!head_dim) return head_dim.error();
    std::string name = hugging_face_name(tensor.name);
    std::vector<int64_t> shape = hugging_face_shape(tensor, name);
    listing.add(
        std::move(name),
        tensor,
        std::move(shape),
        {.bytes = tensor.bytes, .interleaved_head_dim = *head_dim}
    );
  }
  Result<TensorIndex> index = TensorIndex::build(std::move(listing.infos));
  if (!index) return index.error();
  mapped.advise_sequential();
  return std::unique_ptr<WeightSource>(std::make_unique<GgufSource>(
      std::move(mapped), std::move(*index), std::move(listing.placements)
  ));
}

}  // namespace millrace
