// One request and the duty to answer it: what a handler gets. Any thread may answer, at any time,
// exactly once; the connection may be gone by then, which is no error.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "http/request.h"
#include "http/response.h"
#include "http/response_channel.h"

namespace millrace::http {

// Shared by those who work on the answer. When the last of them lets go of it unanswered, the
// client gets a 500; an unfinished stream is cut, so that it cannot be taken for a whole one.
// The methods that answer are thread-safe; the request belongs to whoever works on it.
class Exchange {
 public:
  Exchange(std::shared_ptr<ResponseChannel> channel, Request request)
      : channel_(std::move(channel)), request_(std::move(request)) {}
  ~Exchange() { channel_->abandon(); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  Request& request() { return request_; }
  const Request& request() const { return request_; }

  // The whole answer. False, and nothing happens, if there was one already or the client is gone.
  bool respond(Response response) { return channel_->respond(std::move(response)); }

  // Starts a streamed answer; `head.body` is its first bytes. False as above. HTTP/1.1 clients get
  // chunks, HTTP/1.0 clients a body that ends with the connection.
  bool begin_stream(Response head) { return channel_->begin_stream(std::move(head)); }

  // Adds bytes to the stream; never blocks. What is written before the socket is ready leaves in
  // one piece. False: the stream has ended, the client is gone, or it is more than
  // `stream_buffer_bytes_max`, or twice the largest write, behind; then the connection is cut.
  // Nobody else is delayed.
  bool write(std::string_view bytes) { return channel_->write({&bytes, 1}); }
  bool write(std::initializer_list<std::string_view> pieces) {
    return channel_->write({pieces.begin(), pieces.size()});
  }

  // The stream is whole.
  bool finish() { return channel_->finish(); }

  bool is_client_gone() const { return channel_->is_client_gone(); }

  // Calls `callback` at most once: on an I/O thread (so it must not block) within milliseconds of
  // the client's FIN or RST before the answer is finished, or of the connection's end for another
  // reason; at once if that has happened. Replaces an earlier callback. It must not own this
  // exchange, or both live until then: capture a weak_ptr.
  void on_client_gone(std::function<void()> callback) {
    channel_->on_client_gone(std::move(callback));
  }

  // Whoever has news for this answer calls wake(), from any thread; `listener` is then told soon on
  // the I/O thread of the connection. Not after the answer is finished or the client is gone. Set
  // once. It may own this exchange: it lives until the answer is finished or the client gone.
  void listen(std::shared_ptr<WakeListener> listener) { channel_->listen(std::move(listener)); }
  void wake() { channel_->wake(); }

  // Asks memory for what wake() will touch.
  void prefetch() const { channel_->prefetch(0); }

 private:
  friend class WakeBatch;
  std::shared_ptr<ResponseChannel> channel_;
  Request request_;
};

}  // namespace millrace::http
