#include "answered_requests.h"

#include <utility>

namespace millrace {

void AnsweredRequests::add(const BatchAnswerLine& answer) {
  ++(answer.is_failed ? num_failed_ : num_answered_);
  if (answer.name.custom_id) {
    states_[*answer.name.custom_id] = answer.is_failed ? State::kFailed : State::kAnswered;
  } else {
    failed_lines_.insert(answer.name.line_number);
  }
}

AnsweredRequests::State AnsweredRequests::see(const std::string& custom_id) {
  const auto [found, is_new] = states_.try_emplace(custom_id, State::kDuplicate);
  if (is_new) return State::kNew;
  return std::exchange(found->second, State::kDuplicate);
}

AnsweredRequests::State AnsweredRequests::see_line(uint64_t line_number) const {
  return failed_lines_.contains(line_number) ? State::kFailed : State::kNew;
}

}  // namespace millrace
