#include "model_location.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

namespace millrace {
namespace {

constexpr const char* kDefaultModelFile = "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::filesystem::path cache_folder() {
  if (const std::string own = variable("MILLRACE_CACHE"); !own.empty()) return own;
  if (const std::string xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) {
    return std::filesystem::path(xdg) / "millrace";
  }
  return std::filesystem::path(variable("HOME")) / ".cache" / "millrace";
}

}  // namespace

Result<std::string> locate_model(const std::string& model) {
  std::error_code ignored;
  if (model != kDefaultModel) {
    if (std::filesystem::exists(model, ignored)) return model;
    return not_found(
        fmt::format(
            "there is no model '{}': expected a directory, a .gguf file, or {}",
            model,
            kDefaultModel
        ),
        model
    );
  }
  const std::filesystem::path path = cache_folder() / kDefaultModelFile;
  if (std::filesystem::exists(path, ignored)) return path.string();
  return not_found(
      fmt::format("the default model is not at '{}': run ./dev setup to fetch it", path.string()),
      path.string()
  );
}

}  // namespace millrace
