#include "loadgen/event_fields.h"

#include <fmt/format.h>

#include <charconv>

#include "loadgen/json_scan.h"
#include "results/record_json.h"

namespace millrace::bench {
namespace {

constexpr size_t kDepthMax = 100;

// Where in an event the reader is.
enum class Place {
  kRoot,
  kChoice,
  kMessage,  // `delta` or `message`
  kUsage,
  kPromptDetails,
  kMeta,
  kFinish,  // native: {"type": "length"}
  kError,
  kElsewhere,
};

// What a member is for.
enum class Field {
  kNothing,
  kChoices,
  kMessage,
  kUsage,
  kPromptDetails,
  kMeta,
  kError,
  kText,
  kReasoning,
  kOtherOutput,
  kFinish,
  kTokenIds,
  kCompletionTokens,
  kPromptTokens,
  kCachedTokens,
  kErrorMessage,
  kRootMessage,
  kObject,
  kId,
};

Field field_of_choice(std::string_view key) {
  if (key == "text") return Field::kText;
  if (key == "delta" || key == "message") return Field::kMessage;
  if (key == "finish_reason") return Field::kFinish;
  if (key == "token_ids") return Field::kTokenIds;
  return Field::kNothing;
}

Field field_of_message(std::string_view key) {
  if (key == "content") return Field::kText;
  if (key == "reasoning_content" || key == "reasoning") return Field::kReasoning;
  if (key == "tool_calls" || key == "function_call" || key == "refusal") {
    return Field::kOtherOutput;
  }
  return Field::kNothing;
}

Field field_of_root(std::string_view key) {
  if (key == "choices") return Field::kChoices;
  if (key == "usage") return Field::kUsage;
  if (key == "error") return Field::kError;
  if (key == "text") return Field::kText;
  if (key == "output_ids") return Field::kTokenIds;
  if (key == "meta_info") return Field::kMeta;
  if (key == "message") return Field::kRootMessage;
  if (key == "object") return Field::kObject;
  if (key == "id") return Field::kId;
  return Field::kNothing;
}

Field field_of_counts(std::string_view key) {
  if (key == "completion_tokens") return Field::kCompletionTokens;
  if (key == "prompt_tokens") return Field::kPromptTokens;
  if (key == "prompt_tokens_details") return Field::kPromptDetails;
  return Field::kNothing;
}

Field field_of(Place place, std::string_view key) {
  switch (place) {
    case Place::kRoot:
      return field_of_root(key);
    case Place::kChoice:
      return field_of_choice(key);
    case Place::kMessage:
      return field_of_message(key);
    case Place::kUsage:
      return field_of_counts(key);
    case Place::kPromptDetails:
      return key == "cached_tokens" ? Field::kCachedTokens : Field::kNothing;
    case Place::kMeta:
      if (key == "finish_reason") return Field::kFinish;
      if (key == "cached_tokens") return Field::kCachedTokens;
      if (key == "id") return Field::kId;
      return field_of_counts(key);
    case Place::kFinish:
      return key == "type" ? Field::kFinish : Field::kNothing;
    case Place::kError:
      return key == "message" ? Field::kErrorMessage : Field::kNothing;
    case Place::kElsewhere:
      break;
  }
  return Field::kNothing;
}

Place place_of(Field field) {
  switch (field) {
    case Field::kChoices:
      return Place::kChoice;
    case Field::kMessage:
      return Place::kMessage;
    case Field::kUsage:
      return Place::kUsage;
    case Field::kPromptDetails:
      return Place::kPromptDetails;
    case Field::kMeta:
      return Place::kMeta;
    case Field::kFinish:
      return Place::kFinish;
    case Field::kError:
      return Place::kError;
    default:
      return Place::kElsewhere;
  }
}

HoleTarget target_of(Field field) {
  switch (field) {
    case Field::kText:
      return HoleTarget::kText;
    case Field::kReasoning:
      return HoleTarget::kReasoning;
    case Field::kCompletionTokens:
      return HoleTarget::kCompletionTokens;
    case Field::kPromptTokens:
      return HoleTarget::kPromptTokens;
    case Field::kCachedTokens:
      return HoleTarget::kCachedTokens;
    case Field::kTokenIds:
      return HoleTarget::kTokenIds;
    default:
      return HoleTarget::kNothing;
  }
}

class EventWalk {
 public:
  EventWalk(std::string_view json, std::vector<Hole>* holes)
      : begin_(json.data()), at_(json.data()), end_(json.data() + json.size()), holes_(holes) {}

  Result<EventFields> run() {
    skip_space();
    const bool is_good = at_ != end_ && *at_ == '{' && read_object(Place::kRoot);
    skip_space();
    if (!is_good || at_ != end_) {
      return invalid_argument(
          fmt::format("expected one JSON object, which goes wrong at byte {}", at_ - begin_)
      );
    }
    if (is_object_error_ && !fields_.is_error) {
      fields_.is_error = true;
      fields_.error_message = root_message_;
    }
    return fields_;
  }

 private:
  void skip_space() {
    while (at_ != end_ && is_json_space(*at_)) ++at_;
  }
  // Behind any space.
  bool take(char c) {
    skip_space();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  // Behind the opening quote; the view is of the inside.
  bool read_string(std::string_view& inside) {
    const char* quote = skip_string_inside(at_, end_);
    if (quote == nullptr) return false;
    inside = {at_, static_cast<size_t>(quote - at_)};
    at_ = quote + 1;
    return true;
  }

  bool read_key(Place place, Field& field) {
    std::string_view key;
    if (!take('"') || !read_string(key) || !take(':')) return false;
    if (place == Place::kElsewhere) {
      field = Field::kNothing;
    } else if (key.find('\\') == key.npos) {
      field = field_of(place, key);
    } else {
      std::string unescaped;
      append_unescaped(key, unescaped);
      field = field_of(place, unescaped);
    }
    return true;
  }

  bool read_object(Place place) {
    ++at_;
    if (++depth_ > kDepthMax) return false;
    if (!take('}')) {
      do {
        Field field = Field::kNothing;
        if (!read_key(place, field) || !read_value(field)) return false;
      } while (take(','));
      if (!take('}')) return false;
    }
    --depth_;
    return true;
  }

  bool read_value(Field field) {
    skip_space();
    if (at_ == end_) return false;
    switch (*at_) {
      case '{':
        return start_object(field);
      case '[':
        return read_array(field);
      case '"':
        return read_text(field);
      case 't':
        return take_word("true");
      case 'f':
        return take_word("false");
      case 'n':
        return take_word("null");
      default:
        return read_number(field);
    }
  }

  bool start_object(Field field) {
    if (field == Field::kOtherOutput) fields_.has_other_output = true;
    if (field == Field::kMeta) fields_.is_native = true;
    if (field == Field::kError) fields_.is_error = true;
    // A choice lies in an array.
    return read_object(field == Field::kChoices ? Place::kElsewhere : place_of(field));
  }

  bool read_array(Field field) {
    ++at_;
    int64_t num_ids = 0;
    const bool may_be_ids = field == Field::kNothing || field == Field::kTokenIds;
    const char* bracket = may_be_ids ? skip_ids(at_, end_, num_ids) : nullptr;
    if (bracket != nullptr && num_ids > 0) {
      add_hole(HoleKind::kIds, target_of_ids(field), at_, bracket);
      if (field == Field::kTokenIds) fields_.num_token_ids = num_ids_so_far() + num_ids;
      at_ = bracket + 1;
      return true;
    }
    if (field == Field::kTokenIds) fields_.num_token_ids = num_ids_so_far();
    if (++depth_ > kDepthMax) return false;
    if (take(']')) {
      --depth_;
      return true;
    }
    if (field == Field::kChoices) fields_.has_choices = true;
    if (field == Field::kOtherOutput || field == Field::kText) fields_.has_other_output = true;
    do {
      skip_space();
      if (at_ == end_) return false;
      const bool is_choice = field == Field::kChoices && *at_ == '{';
      if (is_choice ? !read_object(Place::kChoice) : !read_value(Field::kNothing)) return false;
    } while (take(','));
    --depth_;
    return take(']');
  }

  static HoleTarget target_of_ids(Field field) {
    return field == Field::kTokenIds ? HoleTarget::kTokenIds : HoleTarget::kNothing;
  }
  int64_t num_ids_so_far() const { return fields_.num_token_ids.value_or(0); }

  bool read_text(Field field) {
    ++at_;
    std::string_view inside;
    if (!read_string(inside)) return false;
    const char* begin = inside.data();
    switch (field) {
      case Field::kText:
      case Field::kReasoning:
        add_hole(HoleKind::kString, target_of(field), begin, begin + inside.size());
        return assign_hole(target_of(field), inside, 0, fields_);
      case Field::kId:
        add_hole(HoleKind::kString, HoleTarget::kNothing, begin, begin + inside.size());
        break;
      case Field::kOtherOutput:
        fields_.has_other_output = fields_.has_other_output || !inside.empty();
        break;
      case Field::kFinish:
        fields_.finish_reason = inside;
        break;
      case Field::kObject:
        is_object_error_ = inside == "error";
        break;
      case Field::kError:
        fields_.is_error = true;
        fields_.error_message = inside;
        break;
      case Field::kErrorMessage:
        fields_.error_message = inside;
        break;
      case Field::kRootMessage:
        root_message_ = inside;
        break;
      default:
        break;
    }
    return true;
  }

  bool read_number(Field field) {
    const char* begin = at_;
    const char* end = skip_number(at_, end_);
    if (end == nullptr) return false;
    at_ = end;
    const HoleTarget target = target_of(field);
    const bool is_count = target == HoleTarget::kCompletionTokens ||
                          target == HoleTarget::kPromptTokens ||
                          target == HoleTarget::kCachedTokens;
    const HoleTarget hole_target = is_count ? target : HoleTarget::kNothing;
    add_hole(HoleKind::kNumber, hole_target, begin, end);
    // A count that is no whole number, or that no server can mean, is as good as none.
    static_cast<void>(
        assign_hole(hole_target, {begin, static_cast<size_t>(end - begin)}, 0, fields_)
    );
    return true;
  }

  void add_hole(HoleKind kind, HoleTarget target, const char* begin, const char* end) {
    if (holes_ == nullptr) return;
    holes_->push_back({
        .kind = kind,
        .target = target,
        .begin = static_cast<size_t>(begin - begin_),
        .end = static_cast<size_t>(end - begin_),
    });
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  std::vector<Hole>* holes_;
  size_t depth_ = 0;
  EventFields fields_;
  bool is_object_error_ = false;  // vLLM's {"object": "error", "message": ...}
  std::string_view root_message_;
};

}  // namespace

Result<EventFields> read_event(std::string_view json, std::vector<Hole>* holes) {
  return EventWalk(json, holes).run();
}

bool assign_hole(HoleTarget target, std::string_view value, int64_t num_ids, EventFields& fields) {
  const auto assign_count = [&](std::optional<int64_t>& count) {
    int64_t number = 0;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (code != std::errc() || end != value.data() + value.size()) return false;
    if (number < 0 || number > kTokenCountMax) return false;
    count = number;
    return true;
  };
  switch (target) {
    case HoleTarget::kNothing:
      return true;
    case HoleTarget::kText:
      if (!value.empty()) fields.text = value;
      return true;
    case HoleTarget::kReasoning:
      if (!value.empty()) fields.reasoning = value;
      return true;
    case HoleTarget::kTokenIds:
      fields.num_token_ids = fields.num_token_ids.value_or(0) + num_ids;
      return true;
    case HoleTarget::kCompletionTokens:
      return assign_count(fields.completion_tokens);
    case HoleTarget::kPromptTokens:
      return assign_count(fields.prompt_tokens);
    case HoleTarget::kCachedTokens:
      return assign_count(fields.cached_tokens);
  }
  return true;
}

}  // namespace millrace::bench
