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
};

template <size_t N>
std::string_view lookup(const std::array<NamePair, N>& names, std::string_view gguf) {
  for (const NamePair& pair : names) {
    if (pair.gguf == gguf) return pair.hugging_face;
  }
  return {};
}

// "blk.3.attn_q.weight" to "model.layers.3.self_attn.q_proj.weight". An unknown name stays as it
// is, so that check_tensors can complain about it in the file's own words.
std::string hugging_face_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  const std::string_view stem = name.substr(0, dot);
  const std::string_view suffix = dot == std::string_view::npos ? "" : name.substr(dot);
  if (suffix != ".weight" && suffix != ".bias") return std::string(name);
  if (const std::string_view found = lookup(kModelNames, stem); !found.empty()) {
    return fmt::format("{}{}", found, suffix);
  }
  if (!stem.starts_with("blk.")) return std::string(name);
  uint32_t layer = 0;
  const char* const end = stem.data() + stem.size();
  const auto [rest, error] = std::from_chars(stem.data() + 4, end, layer);
  if (error != std::errc() || rest == end || *rest != '.') return std::string(name);
  const std::string_view part(rest + 1, static_cast<size_t>(end - rest - 1));
  const std::string_view found = lookup(kLayerNames, part);
  if (found.empty()) return std::string(name);
  return fmt::format("model.layers.{}.{}{}", layer, found, suffix);
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
    CHECK(
        row_begin >= 0 && num_rows >= 0 && row_begin <= tensor.num_rows() - num_rows,
        "rows outside of tensor " + tensor.name
    );
    if (!placement.interleaved_head_dim) {
      read_stored_rows(tensor, placement.bytes, {row_begin, num_rows}, out);
    } else if (tensor.shape.size() >= 2) {
      const auto row_length = static_cast<size_t>(tensor.row_length());
      for (int64_t i = 0; i < num_rows; ++i) {
        const int64_t row = permuted_row(row_begin + i, *placement.interleaved_head_dim);
        const std::span<float> to = out.subspan(static_cast<size_t>(i) * row_length, row_length);
        read_stored_rows(tensor, placement.bytes, {row, 1}, to);
      }
    } else if (num_rows == 1) {
      read_interleaved_vector(tensor, placement, out);
    }
  }

 private:
  struct Rows {
    int64_t begin = 0;
    int64_t count = 0;
  };

  static void read_stored_rows(
      const TensorInfo& tensor, std::span<const std::byte> bytes, Rows rows, std::span<float> out
  ) {
    const BlockLayout layout = block_layout(tensor.storage);
    const size_t row_bytes =
        static_cast<size_t>(tensor.row_length()) / layout.block_elements * layout.block_bytes;
    const std::span<const std::byte> stored = bytes.subspan(
        static_cast<size_t>(rows.begin) * row_bytes, static_cast<size_t>(rows.count) * row_bytes
    );
    dequantize(tensor.storage, stored, out);
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

}  // namespace

Result<std::unique_ptr<WeightSource>> gguf_weights(MappedFile mapped, const GgufFile& file) {
  const Result<Interleaving> interleaving = Interleaving::read(file);
  if (!interleaving) return interleaving.error();
  std::vector<TensorInfo> infos;
  std::vector<Placement> placements;
  for (const GgufTensor& tensor : file.tensors()) {
    if (is_derived(tensor.name)) continue;
    const Result<std::optional<int64_t>> head_dim = interleaving->head_dim(tensor);
    if (!head_dim) return head_dim.error();
    TensorInfo info;
    info.name = hugging_face_name(tensor.name);
    info.storage = tensor.storage;
    info.shape = tensor.shape;
    if (tensor.storage == StorageType::kOther) info.storage_name = tensor.type_name;
    infos.push_back(std::move(info));
    placements.push_back({.bytes = tensor.bytes, .interleaved_head_dim = *head_dim});
  }
  Result<TensorIndex> index = TensorIndex::build(std::move(infos));
  if (!index) return index.error();
  mapped.advise_sequential();
  return std::unique_ptr<WeightSource>(
      std::make_unique<GgufSource>(std::move(mapped), std::move(*index), std::move(placements))
  );
}

}  // namespace millrace
