#include "local_chat.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <utility>

#include "engine/event_queue.h"
#include "local_time.h"
#include "model_flags.h"
#include "server/choice_text.h"

namespace millrace {
namespace {

std::optional<TimePoint> deadline_of(const GenerationFields& fields) {
  if (!fields.timeout_s) return std::nullopt;
  const std::chrono::duration<double> timeout(*fields.timeout_s);
  return Clock::now() + std::chrono::duration_cast<Duration>(timeout);
}

// "models/SmolLM2.gguf" -> "SmolLM2".
std::string name_of_path(const std::string& path) {
  std::filesystem::path place = path;
  if (!place.has_filename()) place = place.parent_path();
  return place.extension() == ".gguf" ? place.stem().string() : place.filename().string();
}

// The answer to one turn as its events come.
class Turn {
 public:
  Turn(const Tokenizer& tokenizer, const BatchItem& item, const ChatBackend::OnText& on_text)
      : text_(tokenizer, item.fields, item.prompt, stop_strings_of(item.fields)),
        on_text_(on_text) {
    answer_.num_prompt_tokens = static_cast<int64_t>(item.prompt.size());
  }

  // Whether the engine may stop: a stop string was found, or nobody reads.
  bool is_enough() const { return is_reader_gone_ || text_.stop_string().has_value(); }

  void take(const TokenEvent& event) {
    if (is_enough()) return;  // computed before the engine heard of it
    ++answer_.num_output_tokens;
    show(text_.push(event));
  }

  Result<ChatAnswer> finish(const FinishedEvent& event) {
    show(text_.finish());
    if (event.error) return *event.error;
    if (text_.stop_string()) {
      answer_.finish_reason = name_of(FinishReason::kStop);
    } else if (event.reason != FinishReason::kCancelled) {
      answer_.finish_reason = name_of(event.reason);
    }
    return std::move(answer_);
  }

 private:
  void show(std::string_view text) {
    if (!text.empty() && !is_reader_gone_) is_reader_gone_ = !on_text_(text);
  }

  ChoiceText text_;
  const ChatBackend::OnText& on_text_;
  ChatAnswer answer_;
  bool is_reader_gone_ = false;
};

}  // namespace

Result<std::unique_ptr<LocalChat>> LocalChat::load(LocalModelOptions options, json::object fields) {
  std::string name = name_of_path(options.text.model);
  Result<LocalModel> model = load_with_progress(std::move(options));
  if (!model) return model.error();
  if (!model->text.chat_template) {
    return unsupported(name + " has no chat template: give one with --chat-template");
  }
  return std::unique_ptr<LocalChat>(
      new LocalChat(*std::move(model), std::move(fields), std::move(name))
  );
}

LocalChat::LocalChat(LocalModel model, json::object fields, std::string name)
    : model_(std::move(model)), flags_{.fields = std::move(fields)}, name_(std::move(name)) {}

// Without a limit from anyone, an answer may be as long as fits behind the conversation.
Result<BatchItem> LocalChat::prepare_turn(const json::array& messages) const {
  const InputLine line{.object = {{"messages", messages}}};
  BatchItem item = prepare(line, model_, flags_, local_now());
  if (item.error) return *item.error;
  if (!flags_.fields.contains("max_tokens") && !model_.defaults.max_new_tokens) {
    const int64_t room =
        model_.engine->limits().num_sequence_tokens_max - static_cast<int64_t>(item.prompt.size());
    item.fields.sampling.max_tokens = static_cast<int32_t>(std::max<int64_t>(room, 1));
  }
  return item;
}

Result<ChatAnswer> LocalChat::answer(
    const json::array& messages, const OnText& on_text, const std::stop_token& stop
) {
  const Result<BatchItem> item = prepare_turn(messages);
  if (!item) return item.error();
  EngineRequest request{
      .prompt = item->prompt,
      .sampling = item->fields.sampling,
      .priority = item->fields.priority,
      .deadline = deadline_of(item->fields),
  };
  const auto events = std::make_shared<EventQueue>(request);  // the engine is the other owner
  Engine& engine = *model_.engine;
  const Result<RequestId> id = engine.submit(std::move(request), events);
  if (!id) return id.error();
  const std::stop_callback cancel(stop, [&] { engine.cancel(*id); });

  Turn turn(model_.text.tokenizer, *item, on_text);
  while (true) {
    const EngineEvent event = events->next();
    if (const auto* finished = std::get_if<FinishedEvent>(&event)) return turn.finish(*finished);
    const auto* token = std::get_if<TokenEvent>(&event);
    if (token == nullptr) continue;
    turn.take(*token);
    if (turn.is_enough()) engine.cancel(*id);
  }
}

}  // namespace millrace
