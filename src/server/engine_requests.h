// From what a client asked for to what the engine is asked: chats are rendered, text is tokenized,
// lengths are checked. Pure; any thread, and long prompts take long: not for an I/O thread.
#pragma once

#include <chrono>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "engine/engine.h"
#include "server/model_text.h"
#include "server/protocol/generation_request.h"

namespace millrace {

// One for each prompt of `request`, which lets go of them (their number stays). `arrival`: what the
// time limit counts from. `now`: what a chat template shows as the date. A request without
// max_tokens gets its default, as far as that fits. kInvalidArgument: a prompt, or prompt and
// max_tokens together, are longer than a sequence may be, all of them together more than the engine
// ever holds, or the chat template refuses; `where` is the JSON path.
Result<std::vector<EngineRequest>> build_engine_requests(
    GenerationRequest& request,
    const ModelText& text,
    const EngineLimits& limits,
    TimePoint arrival,
    std::chrono::local_seconds now
);

}  // namespace millrace
