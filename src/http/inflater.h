// Decompresses one gzip member (RFC 1952) piece by piece, with a bound on what comes out.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace millrace::http {

enum class InflateStatus {
  kMore,      // all input used, the member is not at its end
  kDone,      // the member ended exactly where the input does
  kCorrupt,   // not gzip, a bad checksum, or bytes behind the member's end
  kTooLarge,  // more than `size_max` bytes would come out
};

class Inflater {
 public:
  explicit Inflater(size_t size_max);
  Inflater(Inflater&&) noexcept;
  Inflater& operator=(Inflater&&) noexcept;
  ~Inflater();

  // Appends what `bytes` decompresses to. `out` never grows beyond `size_max` bytes. After anything
  // but kMore, more input is kCorrupt.
  InflateStatus feed(std::string_view bytes, std::string& out);

 private:
  struct Stream;  // zlib's state, some 40 KiB
  std::unique_ptr<Stream> stream_;
  size_t size_max_;
};

}  // namespace millrace::http
