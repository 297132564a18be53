#include "bench/closed_loop.h"

#include <fmt/format.h>

#include "bench/load_client.h"
#include "bench/request_bytes.h"

namespace millrace::bench {
namespace {

constexpr double kWarmUpSeconds = 1;
constexpr size_t kSampleEvery = 32;

int expected_status(AnswerKind kind) {
  return kind == AnswerKind::kRefusal ? 400 : 200;
}

class ClosedLoop : public ResponseHandler {
 public:
  ClosedLoop(const Workload& workload, LoadClient& client)
      : workload_(workload), client_(client), num_answered_of_(workload.num_connections, 0) {
    for (size_t i = 0; i < workload.num_pipelined; ++i) batch_ += workload.requests[0].bytes;
  }

  Result<void> start() {
    for (size_t i = 0; i < workload_.num_connections; ++i) {
      client_.keep_body(i);
      if (Result<void> sent = send_next(i); !sent) return sent;
    }
    return {};
  }

  Result<void> run(double seconds) {
    const TimePoint end =
        Clock::now() + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    while (Clock::now() < end) {
      Result<void> polled = client_.poll(*this, std::chrono::milliseconds(100));
      if (!polled) return polled;
    }
    return {};
  }

  void on_events(size_t, size_t num_new, TimePoint) override { num_events_ += num_new; }

  Result<void> on_response(size_t connection, const ResponseReader& response, TimePoint) override {
    const Asked& asked = request_of(connection).asked;
    if (Result<void> checked = check(response, asked); !checked) return checked;
    ++num_responses_;
    if (++num_answered_of_[connection] % workload_.num_pipelined != 0) return {};
    return send_next(connection);
  }

  bool keeps_body(size_t) override { return num_responses_ % kSampleEvery == 0; }

  void restart_counts() {
    num_events_ = 0;
    num_responses_ = 0;
  }
  size_t num_responses() const { return num_responses_; }
  // Events with text: a stream's others (usage, [DONE]) are no tokens.
  double num_texts() const {
    if (facts_.num_events == 0) return 0;
    return static_cast<double>(num_events_) *
           static_cast<double>(workload_.requests[0].asked.num_output_tokens) /
           static_cast<double>(facts_.num_events);
  }
  size_t num_checked() const { return num_checked_; }
  const StreamFacts& facts() const { return facts_; }

 private:
  const LoadRequest& request_of(size_t connection) const {
    const size_t turn = connection + num_answered_of_[connection];
    return workload_.requests[turn % workload_.requests.size()];
  }

  Result<void> send_next(size_t connection) {
    if (workload_.num_pipelined > 1) return client_.send(connection, batch_);
    return client_.send(connection, request_of(connection).bytes);
  }

  Result<void> check(const ResponseReader& response, const Asked& asked) {
    if (response.status() != expected_status(workload_.kind)) {
      return invalid_argument(fmt::format("status {}: {}", response.status(), response.body()));
    }
    const bool is_sample = !response.body().empty();
    num_checked_ += is_sample ? 1 : 0;
    switch (workload_.kind) {
      case AnswerKind::kStream:
        return check_stream_answer(response, asked);
      case AnswerKind::kWhole:
        return is_sample ? check_answer(response.body(), asked) : Ok();
      case AnswerKind::kRefusal:
        return is_sample ? check_refusal(response.body()) : Ok();
    }
    return {};
  }

  using Ok = Result<void>;

  Result<void> check_stream_answer(const ResponseReader& response, const Asked& asked) {
    if (!response.is_event_stream()) return invalid_argument("not text/event-stream");
    if (!response.body().empty()) {
      const Result<StreamFacts> facts = check_stream(response.body(), asked);
      if (!facts) return facts.error();
      if (facts_.num_events == 0) facts_ = *facts;
    }
    if (response.num_events() != facts_.num_events || !response.ends_with_done()) {
      return invalid_argument(fmt::format(
          "a stream of {} events, others have {}; [DONE] at its end: {}",
          response.num_events(),
          facts_.num_events,
          response.ends_with_done()
      ));
    }
    return {};
  }

  const Workload& workload_;
  LoadClient& client_;
  std::string batch_;
  std::vector<size_t> num_answered_of_;  // [connection]
  size_t num_events_ = 0;
  size_t num_responses_ = 0;
  size_t num_checked_ = 0;
  StreamFacts facts_;  // of the first stream that was checked; num_events 0 before
};

std::string setting_of(const Workload& workload, const StreamFacts& facts) {
  std::string setting;
  if (workload.kind == AnswerKind::kStream) {
    setting = fmt::format(
        "{} in / {} out, ", facts.num_prompt_tokens, workload.requests[0].asked.num_output_tokens
    );
  }
  setting += fmt::format("{} connections", workload.num_connections);
  if (workload.num_pipelined > 1) setting += fmt::format(", {} pipelined", workload.num_pipelined);
  return setting;
}

}  // namespace

Workload stream_workload(const std::string& model, bool is_chat, int64_t num_output_tokens) {
  const GenerationShape shape{
      .is_chat = is_chat, .is_stream = true, .num_output_tokens = num_output_tokens};
  return {
      .kind = AnswerKind::kStream,
      .requests = {{generation_request(model, shape), {num_output_tokens}}},
  };
}

Workload whole_workload(const std::string& model, bool is_chat) {
  Workload workload{.kind = AnswerKind::kWhole};
  for (int64_t num_tokens = 1; num_tokens <= 16; ++num_tokens) {
    const GenerationShape shape{.is_chat = is_chat, .num_output_tokens = num_tokens};
    workload.requests.push_back({generation_request(model, shape), {num_tokens}});
  }
  return workload;
}

Workload refusal_workload(const std::string& model) {
  return {.kind = AnswerKind::kRefusal, .requests = {{broken_request(model), {}}}};
}

Result<Report> measure_closed_loop(
    const ServerUnderLoad& target,
    const Workload& workload,
    const std::string& scenario,
    double seconds
) {
  Result<LoadClient> client = LoadClient::connect(target.address, workload.num_connections);
  if (!client) return client.error();
  ClosedLoop loop(workload, *client);
  if (Result<void> started = loop.start(); !started) return started.error();
  if (Result<void> warm = loop.run(kWarmUpSeconds); !warm) return warm.error();
  loop.restart_counts();
  const Result<Window> window = Window::begin(target);
  if (!window) return window.error();
  if (Result<void> run = loop.run(seconds); !run) return run.error();
  const bool is_stream = workload.kind == AnswerKind::kStream;
  Result<std::vector<Figure>> figures =
      is_stream ? window->figures("events", loop.num_texts())
                : window->figures("requests", static_cast<double>(loop.num_responses()));
  if (!figures) return figures.error();
  if (loop.num_checked() == 0) return invalid_argument("no answer came, so none was checked");
  if (is_stream) {
    figures->push_back({"streams_per_s", static_cast<double>(loop.num_responses()) / seconds});
  }
  figures->push_back({"answers_checked", static_cast<double>(loop.num_checked())});
  return Report{scenario, setting_of(workload, loop.facts()), std::move(*figures)};
}

Result<CannedAnswer> canned_answer(
    const ServerUnderLoad& target, const Workload& workload, bool is_piecewise
) {
  const std::string& request = workload.requests[0].bytes;
  const int status = expected_status(workload.kind);
  const Result<std::string> body = fetch(target.address, request, status);
  if (!body) return body.error();
  CannedAnswer answer{.num_request_bytes = request.size()};
  if (workload.kind != AnswerKind::kStream) {
    answer.pieces.push_back(fmt::format(
        "HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
        status,
        body->size(),
        *body
    ));
    return answer;
  }
  std::string piece =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (size_t at = 0; at < body->size();) {
    const size_t end = is_piecewise ? body->find("\n\n", at) + 2 : body->size();
    piece += fmt::format("{:x}\r\n{}\r\n", end - at, body->substr(at, end - at));
    at = end;
    if (at == body->size()) piece += "0\r\n\r\n";
    answer.pieces.push_back(std::move(piece));
    piece.clear();
  }
  return answer;
}

}  // namespace millrace::bench
