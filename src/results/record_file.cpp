#include "results/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "results/record_json.h"

namespace millrace::bench {
namespace {

// A million chunks fit; what is longer is not ours.
constexpr size_t kLineBytesMax = size_t{16} << 20;
constexpr std::string_view kLineHead = "{\"type\": \"";

Error file_error(std::string_view verb, const std::string& path, int error_number) {
  return invalid_argument(
      fmt::format("cannot {} '{}': {}", verb, path, std::strerror(error_number)), path
  );
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

// The bytes behind the last line's end; at most so many as a line of ours may have.
Result<std::string> read_unended_line(int fd, off_t size, const std::string& path) {
  std::string tail;
  std::array<char, 4096> block;
  while (size > 0 && tail.size() <= kLineBytesMax) {
    const size_t want = std::min(block.size(), static_cast<size_t>(size));
    const ssize_t got = ::pread(fd, block.data(), want, size - static_cast<off_t>(want));
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(want)) return file_error("read", path, got < 0 ? errno : EIO);
    const std::string_view text(block.data(), want);
    const size_t end = text.rfind('\n');
    tail.insert(0, end == std::string_view::npos ? text : text.substr(end + 1));
    if (end != std::string_view::npos) break;
    size -= static_cast<off_t>(want);
  }
  return tail;
}

// A last line without its end is what a process that died was writing: nothing can read it, and
// what comes after it would be lost too.
Result<void> cut_torn_line(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return file_error("inspect", path, errno);
  if (!S_ISREG(status.st_mode)) return {};
  const Result<std::string> tail = read_unended_line(fd, status.st_size, path);
  if (!tail) return tail.error();
  if (tail->empty()) return {};
  std::string_view text = *tail;
  // Where the power failed, zeros may stand for what never came to the disk.
  while (text.ends_with('\0')) text.remove_suffix(1);
  if (!text.starts_with(kLineHead) && !kLineHead.starts_with(text)) {
    return invalid_argument(
        fmt::format("'{}' is not a file of benchmark points, and is left as it is", path), path
    );
  }
  if (::ftruncate(fd, status.st_size - static_cast<off_t>(tail->size())) != 0) {
    return file_error("cut the torn last line of", path, errno);
  }
  return {};
}

// Puts lines together to points.
class RecordReader {
 public:
  // The error is of the line itself, without its number.
  Result<void> take(std::string_view line) {
    if (line.size() > kLineBytesMax) {
      return invalid_argument(fmt::format("longer than {} bytes", kLineBytesMax));
    }
    // Duplicate keys do no harm here, and looking for them takes longer than the reading.
    const Result<json::value> value =
        parse_json(line, {.depth_max = 8, .allow_duplicate_keys = true});
    if (!value) return value.error();
    if (!value->is_object()) return invalid_argument("not an object");
    const json::object& object = value->as_object();
    const json::value* type = object.if_contains("type");
    if (type != nullptr && *type == "point") return take_point(object);
    if (type != nullptr && *type == "request") return take_request(object);
    if (type != nullptr && *type == "end") return take_end(object);
    return invalid_argument("'type' must be \"point\", \"request\" or \"end\"");
  }

  std::vector<PointRecord> finish() && { return std::move(whole_); }

 private:
  // A point that the process could not end is followed by the next one's first line.
  Result<void> take_point(const json::object& object) {
    Result<PointRecord> point = point_from_json(object);
    if (!point) return point.error();
    open_ = *std::move(point);
    return {};
  }

  Result<void> take_request(const json::object& object) {
    if (!open_) return invalid_argument("a request before its point");
    Result<RequestRecord> request = request_from_json(object);
    if (!request) return request.error();
    open_->requests.push_back(*std::move(request));
    return {};
  }

  Result<void> take_end(const json::object& object) {
    if (!open_) return invalid_argument("an end before its point");
    const json::value* num_requests = object.if_contains("num_requests");
    if (num_requests == nullptr || *num_requests != open_->requests.size()) {
      return invalid_argument(fmt::format(
          "'num_requests' must be {}, the number of lines before it", open_->requests.size()
      ));
    }
    whole_.push_back(*std::move(open_));
    open_.reset();
    return {};
  }

  std::vector<PointRecord> whole_;
  std::optional<PointRecord> open_;
};

}  // namespace

std::string to_jsonl(const PointRecord& record) {
  json::object head;
  head["type"] = "point";
  for (auto& [key, value] : point_to_json(record)) head[key] = std::move(value);
  std::string out = to_json_text(head) + "\n";
  for (const RequestRecord& request : record.requests) {
    append_request_json(out, request);
    out += '\n';
  }
  out += fmt::format("{{\"type\": \"end\", \"num_requests\": {}}}\n", record.requests.size());
  return out;
}

Result<void> append_record(const std::string& path, const PointRecord& record) {
  const std::string lines = to_jsonl(record);
  struct stat status {};
  // A pipe cannot be opened for both.
  const bool is_other = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  const int mode = is_other ? O_WRONLY : O_RDWR | O_CREAT | O_APPEND;
  const Descriptor file(::open(path.c_str(), mode | O_CLOEXEC, 0666));
  if (file.get() < 0) return file_error("open", path, errno);
  if (!is_other) {
    // Two processes may add to one file; their lines must not mix.
    while (::flock(file.get(), LOCK_EX) != 0) {
      if (errno != EINTR) return file_error("lock", path, errno);
    }
    if (auto cut = cut_torn_line(file.get(), path); !cut) return cut;
  }
  if (auto written = write_all(file.get(), lines, path); !written) return written;
  if (!is_other && ::fsync(file.get()) != 0) return file_error("write to", path, errno);
  return {};
}

Result<std::vector<PointRecord>> parse_records(std::string_view jsonl) {
  RecordReader reader;
  for (int64_t number = 1; !jsonl.empty(); ++number) {
    const size_t end = jsonl.find('\n');
    // Without its end it is what a process that died was writing.
    if (end == std::string_view::npos) {
      if (number > 1 || kLineHead.starts_with(jsonl.substr(0, kLineHead.size()))) break;
      return invalid_argument("line 1: not a file of benchmark points", "line 1");
    }
    std::string_view line = jsonl.substr(0, end);
    jsonl.remove_prefix(end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (const Result<void> taken = reader.take(line); !taken) {
      return invalid_argument(
          fmt::format("line {}: {}", number, taken.error().message), fmt::format("line {}", number)
      );
    }
  }
  return std::move(reader).finish();
}

Result<std::vector<PointRecord>> read_records(const std::string& path) {
  const Result<MappedFile> file = MappedFile::open(path);
  if (!file) return file.error();
  file->advise_sequential();
  const std::span<const std::byte> bytes = file->bytes();
  Result<std::vector<PointRecord>> records =
      parse_records({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  if (records) return records;
  Error error = records.error();
  error.message = fmt::format("'{}', {}", path, error.message);
  return error;
}

}  // namespace millrace::bench
