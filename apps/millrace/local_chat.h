// A chat with a model that runs in this process.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat_backend.h"
#include "generate_input.h"
#include "server/local_model.h"

namespace millrace {

class LocalChat final : public ChatBackend {
 public:
  // Loads the model. `fields`: the sampling flags. kUnsupported: it has no chat template.
  static Result<std::unique_ptr<LocalChat>> load(LocalModelOptions options, json::object fields);

  Result<ChatAnswer> answer(
      const json::array& messages, const OnText& on_text, const std::stop_token& stop
  ) override;
  const std::string& model_name() const override { return name_; }

  const std::vector<std::string>& start_lines() const { return model_.start_lines; }

 private:
  LocalChat(LocalModel model, json::object fields, std::string name);
  Result<BatchItem> prepare_turn(const json::array& messages) const;

  LocalModel model_;
  InputFlags flags_;
  std::string name_;
};

}  // namespace millrace
