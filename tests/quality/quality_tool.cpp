// quality_tool: the parts of tools/quantization/compare_llama.py that need a model of ours.
//
//   quality_tool compare BASE TOKENS MODEL...   how far each MODEL is from BASE in bfloat16 on a
//       text. TOKENS: a file with a JSON array of arrays of token ids, the pieces of the text. As
//       llama-perplexity does it, the first half of a piece is only read, and the tokens of the
//       second are scored. MODEL: a directory that `millrace quantize` wrote, or int8 or int4 for
//       BASE rounded while loading. One JSON object a line.
//   quality_tool calibration-text MODEL         the text by which `millrace quantize` calibrates
#include <fmt/format.h>

#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "calibration_texts.h"
#include "divergence.h"
#include "loaded_model.h"

namespace millrace {
namespace {

using Pieces = std::vector<std::vector<TokenId>>;

Result<Pieces> read_pieces(const std::string& path, int64_t vocab_size) {
  const Result<json::value> file = read_json_file(path);
  if (!file) return file.error();
  auto pieces = json::try_value_to<Pieces>(*file);
  if (!pieces) return invalid_argument("expected a JSON array of arrays of token ids", path);
  for (const std::vector<TokenId>& piece : *pieces) {
    if (piece.size() < 4 || piece.size() > kModelLenMax) {
      return invalid_argument(
          fmt::format("expected 4 to {} tokens a piece, got {}", kModelLenMax, piece.size()), path
      );
    }
    for (const TokenId token : piece) {
      if (token < 0 || token >= vocab_size) {
        return invalid_argument(fmt::format("{} is no token of the model", token), path);
      }
    }
  }
  return *std::move(pieces);
}

Divergence compare_pieces(CpuModel& base, CpuModel& model, const Pieces& pieces) {
  Divergence divergence;
  const auto vocab_size = static_cast<size_t>(base.vocab_size());
  for (const std::vector<TokenId>& piece : pieces) {
    const size_t num_rows = piece.size() - piece.size() / 2;
    const std::span<const float> expected = forward(base, piece, num_rows);
    const std::span<const float> found = forward(model, piece, num_rows);
    // Nothing follows the last token.
    for (size_t row = 0; row + 1 < num_rows; ++row) {
      divergence.add(
          expected.subspan(row * vocab_size, vocab_size),
          found.subspan(row * vocab_size, vocab_size),
          piece[piece.size() / 2 + row + 1]
      );
    }
  }
  return divergence;
}

// Of a weight of the layers' matrices, and of the output head's.
struct Bits {
  double layers = 0.0;
  double head = 0.0;
};

Bits bits_of(const ModelConfig& config, const WeightFormat& format) {
  struct Shape {
    int64_t num_rows;
    int64_t num_columns;
  };
  const auto bits = [](MatrixFormat kept, std::initializer_list<Shape> shapes) {
    double num_bits = 0.0;
    double num_weights = 0.0;
    for (const auto& [num_rows, num_columns] : shapes) {
      const auto rows = static_cast<size_t>(num_rows);
      const auto columns = static_cast<size_t>(num_columns);
      num_bits += 8.0 * static_cast<double>(*WeightMatrix::num_bytes(kept, rows, columns));
      num_weights += static_cast<double>(rows * columns);
    }
    return num_bits / num_weights;
  };
  const int64_t hidden = config.hidden_size;
  return {
      .layers = bits(
          format.of_layers(),
          {{config.q_size() + 2 * config.kv_size(), hidden},
           {hidden, config.q_size()},
           {2 * config.intermediate_size, hidden},
           {hidden, config.intermediate_size}}
      ),
      .head = bits(format.of_head(), {{config.vocab_size, hidden}}),
  };
}

json::object object_of(const std::string& name, const CpuModel& model, const Divergence& found) {
  const CpuModelOptions& options = model.options();
  const Bits bits = bits_of(model.config(), {options.dtype, options.quantization});
  return {
      {"name", name},
      {"num_tokens", found.num_tokens()},
      {"mean_kl", found.mean_kl()},
      {"mean_kl_error", found.standard_error()},
      {"p99_kl", found.quantile_kl(0.99)},
      {"same_top",
       1.0 - static_cast<double>(found.num_changed()) / static_cast<double>(found.num_tokens())},
      {"base_perplexity", found.base_perplexity()},
      {"perplexity", found.perplexity()},
      {"bits_of_layers", bits.layers},
      {"bits_of_head", bits.head},
  };
}

Result<void> run_compare(const std::vector<std::string>& arguments) {
  const std::string& path = arguments[0];
  const Loaded base = load(path, std::nullopt);
  const Result<Pieces> pieces = read_pieces(arguments[1], base.model->vocab_size());
  if (!pieces) return pieces.error();
  for (size_t i = 2; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    const std::optional<Quantization> quantization = quantization_from_name(name);
    const Loaded model = quantization ? load(path, quantization) : load(name, std::nullopt);
    const Divergence found = compare_pieces(*base.model, *model.model, *pieces);
    fmt::print("{}\n", to_json_text(object_of(name, *model.model, found)));
    std::fflush(stdout);
  }
  return {};
}

Result<void> print_calibration_text(const std::string& path) {
  LocalModel model = load_speaking(path);
  const Result<Texts> texts = own_answers(model, kCalibrationAnswerTokens);
  if (!texts) return texts.error();
  for (const std::vector<TokenId>& text : *texts) {
    fmt::print("{}\n", model.text.tokenizer.decode(text, /*skip_special_tokens=*/false));
  }
  return {};
}

int run(const std::vector<std::string>& arguments) {
  const std::string verb = arguments.empty() ? "" : arguments.front();
  const std::vector<std::string> rest(
      arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end()
  );
  Result<void> done;
  if (verb == "compare" && rest.size() >= 3) {
    done = run_compare(rest);
  } else if (verb == "calibration-text" && rest.size() == 1) {
    done = print_calibration_text(rest.front());
  } else {
    done =
        invalid_argument("compare BASE TOKENS MODEL... or calibration-text MODEL", "quality_tool");
  }
  if (done) return 0;
  fmt::print(stderr, "quality_tool: {}\n", done.error().message);
  return 1;
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  return millrace::run(std::vector<std::string>(argv + 1, argv + argc));
}
