#include "http/inflater.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace millrace::http {

struct Inflater::Stream {
  Stream() {
    // 16: a gzip header and trailer, nothing else; 15: windows of up to 32 KiB, as the format has.
    is_ready = inflateInit2(&zlib, 16 + 15) == Z_OK;
  }
  ~Stream() {
    if (is_ready) inflateEnd(&zlib);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  z_stream zlib = {};
  bool is_ready = false;
  bool is_over = false;
};

Inflater::Inflater(size_t size_max) : stream_(std::make_unique<Stream>()), size_max_(size_max) {}
Inflater::Inflater(Inflater&&) noexcept = default;
Inflater& Inflater::operator=(Inflater&&) noexcept = default;
Inflater::~Inflater() = default;

InflateStatus Inflater::feed(std::string_view bytes, std::string& out) {
  if (bytes.empty()) return stream_->is_over ? InflateStatus::kCorrupt : InflateStatus::kMore;
  if (!stream_->is_ready || stream_->is_over) return InflateStatus::kCorrupt;
  CHECK(bytes.size() <= size_t{1} << 30, "an inflater is fed buffers, not files");
  z_stream& zlib = stream_->zlib;
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zlib.avail_in = static_cast<uInt>(bytes.size());
  std::array<char, 16384> piece;
  while (true) {
    zlib.next_out = reinterpret_cast<Bytef*>(piece.data());
    zlib.avail_out = static_cast<uInt>(piece.size());
    const int rc = inflate(&zlib, Z_NO_FLUSH);
    const size_t num_out = piece.size() - zlib.avail_out;
    stream_->is_over = rc != Z_OK && rc != Z_BUF_ERROR;
    if (num_out > size_max_ - std::min(out.size(), size_max_)) {
      stream_->is_over = true;
      return InflateStatus::kTooLarge;
    }
    out.append(piece.data(), num_out);
    if (rc == Z_STREAM_END) {
      return zlib.avail_in == 0 ? InflateStatus::kDone : InflateStatus::kCorrupt;
    }
    if (stream_->is_over) return InflateStatus::kCorrupt;
    if (zlib.avail_in == 0 && zlib.avail_out != 0) return InflateStatus::kMore;
  }
}

}  // namespace millrace::http
