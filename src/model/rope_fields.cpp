#include "model/rope_fields.h"

#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/printable.h"

namespace millrace {
namespace {

std::optional<Llama3RopeScaling> read_llama3(JsonFields& rope) {
  Llama3RopeScaling scaling;
  for (const std::string_view key :
       {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    if (rope.find(key) == nullptr) {
      rope.refuse(
          ErrorCode::kInvalidArgument, key, fmt::format("'{}' of rope type llama3 is missing", key)
      );
    }
  }
  scaling.factor = rope.number("factor", {.min = 1.0, .max = 1e6}).value_or(1.0);
  scaling.low_freq_factor = rope.number("low_freq_factor", {.min = 1e-6, .max = 1e6}).value_or(1.0);
  scaling.high_freq_factor =
      rope.number("high_freq_factor", {.min = 1e-6, .max = 1e6}).value_or(4.0);
  scaling.original_max_position_embeddings =
      rope.integer("original_max_position_embeddings", kPositions).value_or(8192);
  if (!rope.error() && scaling.high_freq_factor <= scaling.low_freq_factor) {
    rope.refuse(
        ErrorCode::kInvalidArgument,
        "high_freq_factor",
        "'high_freq_factor' must be greater than 'low_freq_factor'"
    );
  }
  return scaling;
}

void refuse_partial_rotation(JsonFields& rope) {
  const double partial = rope.number("partial_rotary_factor", {}).value_or(1.0);
  if (partial != 1.0) {
    rope.refuse(
        ErrorCode::kUnsupported,
        "partial_rotary_factor",
        fmt::format("partial rotary embeddings ({}) are not supported", partial)
    );
  }
}

// `type` is the older name; files that have both say the same in both.
std::string read_type(JsonFields& rope) {
  const std::optional<std::string> type = rope.string("rope_type");
  const std::optional<std::string> older = rope.string("type");
  if (type && older && *type != *older) {
    rope.refuse(
        ErrorCode::kInvalidArgument,
        "rope_type",
        fmt::format(
            "'rope_type' is '{}' and 'type' is '{}': expected the same",
            printable(*type),
            printable(*older)
        )
    );
  }
  return type ? *type : older.value_or("default");
}

// One of the two spellings: `rope_parameters` holds the base as well, `rope_scaling` does not.
void read_rope_object(JsonFields& rope, ModelConfig& config) {
  const std::string type = read_type(rope);
  refuse_partial_rotation(rope);
  if (const std::optional<double> theta = rope.number("rope_theta", {.min = 1.0, .max = 1e12})) {
    config.rope_theta = *theta;
  }
  if (type == "llama3") {
    config.rope_scaling = read_llama3(rope);
  } else if (type != "default") {
    rope.refuse(
        ErrorCode::kUnsupported,
        "rope_type",
        fmt::format("rope type '{}' is not supported (supported: default, llama3)", printable(type))
    );
  }
}

}  // namespace

Result<void> read_rope(JsonFields& fields, ModelConfig& config) {
  config.rope_theta = fields.number("rope_theta", {.min = 1.0, .max = 1e12}).value_or(10000.0);
  refuse_partial_rotation(fields);
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    const json::object* object = fields.object(key);
    if (object == nullptr) continue;
    JsonFields rope(*object, fmt::format("{}.", key));
    const bool nested = std::any_of(object->begin(), object->end(), [](const auto& field) {
      return field.value().is_object();
    });
    if (nested) {
      rope.refuse(ErrorCode::kUnsupported, "", "rope parameters per layer type are not supported");
    }
    read_rope_object(rope, config);
    if (rope.error()) return *rope.error();
  }
  return {};
}

}  // namespace millrace
