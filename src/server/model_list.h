// What a server says of its model and itself, as JSON: OpenAI's and vLLM's /v1/models and /version,
// SGLang's /model_info and /server_info. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/engine.h"

namespace millrace {

// Borrowed views.
struct ServedModel {
  std::span<const std::string> names;  // that clients may ask for; the first is the model's own
  std::string_view path;               // as it was named at start
  std::string_view tokenizer_path;
  std::string_view family;    // name_of(ModelFamily)
  int64_t created_s = 0;      // Unix time
  int32_t max_model_len = 0;  // tokens of prompt and output
};

// {"object":"list","data":[...]}: one entry for each name.
std::string model_list_json(const ServedModel& model);

// The entry of one name; none: no model is called so.
std::optional<std::string> model_json(const ServedModel& model, std::string_view name);

// {"version":"0.1.0"}
std::string version_json(std::string_view version);

std::string model_info_json(const ServedModel& model);

// What SGLang's benchmark clients and routers read, and the limits and the state of the queue.
std::string server_info_json(
    const ServedModel& model,
    const EngineLimits& limits,
    const EngineStats& stats,
    std::string_view version
);

}  // namespace millrace
