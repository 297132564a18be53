#include "loadgen/event_reader.h"

#include <cstring>

#include "loadgen/json_scan.h"

namespace millrace::bench {

Result<EventFields> EventReader::read(std::string_view json) {
  EventFields fields;
  for (size_t i = 0; i < num_templates_; ++i) {
    const size_t which = (last_ + i) % num_templates_;
    if (!match(templates_[which], json, fields)) continue;
    last_ = which;
    return fields;
  }
  ++num_long_reads_;
  holes_.clear();
  Result<EventFields> read = read_event(json, &holes_);
  if (read && !read->is_error && json.size() <= kTemplateBytesMax) remember(json, *read);
  return read;
}

bool EventReader::match(const Template& like, std::string_view json, EventFields& fields) {
  const char* at = json.data();
  const char* const end = at + json.size();
  size_t from = 0;  // in the template
  fields = like.fields;
  for (const Hole& hole : like.holes) {
    const size_t size = hole.begin - from;
    if (static_cast<size_t>(end - at) < size ||
        std::memcmp(at, like.bytes.data() + from, size) != 0) {
      return false;
    }
    at += size;
    from = hole.end;
    const char* const begin = at;
    int64_t num_ids = 0;
    switch (hole.kind) {
      case HoleKind::kString:
        at = skip_string_inside(at, end);
        break;
      case HoleKind::kNumber:
        at = skip_number(at, end);
        break;
      case HoleKind::kIds:
        at = skip_ids(at, end, num_ids);
        break;
    }
    if (at == nullptr) return false;
    if (hole.target == HoleTarget::kNothing) continue;
    const std::string_view value(begin, static_cast<size_t>(at - begin));
    if (!assign_hole(hole.target, value, num_ids, fields)) return false;
  }
  const size_t rest = like.bytes.size() - from;
  return static_cast<size_t>(end - at) == rest &&
         std::memcmp(at, like.bytes.data() + from, rest) == 0;
}

void EventReader::remember(std::string_view json, const EventFields& fields) {
  const size_t which = num_templates_ < kNumTemplates ? num_templates_++ : next_;
  next_ = (which + 1) % kNumTemplates;
  Template& like = templates_[which];
  like.bytes = json;
  like.holes = holes_;
  like.fields = {
      .has_choices = fields.has_choices,
      .is_native = fields.is_native,
      .has_other_output = fields.has_other_output,
  };
  // Arrays of ids that are empty here are no holes, and stay a part of the structure.
  if (fields.num_token_ids) like.fields.num_token_ids = 0;
  if (!fields.finish_reason.empty()) {
    const auto offset = static_cast<size_t>(fields.finish_reason.data() - json.data());
    like.fields.finish_reason =
        std::string_view(like.bytes).substr(offset, fields.finish_reason.size());
  }
  last_ = which;
}

}  // namespace millrace::bench
