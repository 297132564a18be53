#include "batch_output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/file.h"
#include "jsonl_input.h"

namespace millrace {
namespace {

// What a machine that loses power may cost at most.
constexpr auto kSyncInterval = std::chrono::seconds(5);
// We wrote it from memory once; what is longer is not ours.
constexpr size_t kAnswerBytesMax = size_t{4} << 30;

Error file_error(std::string_view verb, const std::string& name) {
  return invalid_argument(fmt::format("cannot {} '{}': {}", verb, name, std::strerror(errno)));
}

Error foreign_file(const std::string& name, uint64_t line_number, std::string_view why) {
  return invalid_argument(fmt::format(
      "'{}' is not a file of batch answers, and is left as it is (line {} {}); "
      "--overwrite replaces it",
      name,
      line_number,
      why
  ));
}

// Whether a last line without its end is one of ours that was cut. Where the power failed, zeros
// may stand for what never came to the disk.
bool is_torn_answer(std::string_view text) {
  while (text.ends_with('\0')) text.remove_suffix(1);
  return text.starts_with(kBatchAnswerHead) || kBatchAnswerHead.starts_with(text);
}

// Calls `take` with each line of the file.
template <class Take>
Result<void> for_each_line(const std::string& path, Take take) {
  Result<JsonlInput> lines = JsonlInput::open(path, kAnswerBytesMax);
  if (!lines) return lines.error();
  while (true) {
    const Result<JsonlLine> line = lines->next();
    if (!line) return line.error();
    if (line->kind == JsonlLine::Kind::kEnd) return {};
    if (line->kind != JsonlLine::Kind::kLine)
      return foreign_file(path, line->number, "is too long");
    if (auto taken = take(*line); !taken) return taken;
  }
}

}  // namespace

Result<BatchOutput> BatchOutput::open(
    const std::string& path, const BatchOutputOptions& options, AnsweredRequests& answered
) {
  if (path == "-") {
    const int fd = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return file_error("write to", "standard output");
    return BatchOutput("standard output", http::UniqueFd(fd), false);
  }
  struct stat status {};
  const bool is_other = ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
  // A pipe cannot be opened for both, and a directory for neither.
  const int mode = is_other ? O_WRONLY : O_RDWR | O_CREAT | O_APPEND;
  const int fd = ::open(path.c_str(), mode | O_CLOEXEC, 0666);
  if (fd < 0) return file_error("open", path);
  BatchOutput output(path, http::UniqueFd(fd), !is_other);
  if (is_other) return output;
  if (auto locked = output.take_lock(); !locked) return locked.error();
  if (options.overwrite) {
    if (::ftruncate(fd, 0) != 0) return file_error("empty", path);
    return output;
  }
  if (auto read = output.read_answers(options, answered); !read) return read.error();
  return output;
}

BatchOutput::BatchOutput(std::string name, http::UniqueFd fd, bool is_file)
    : name_(std::move(name)), fd_(std::move(fd)), is_file_(is_file), synced_(Clock::now()) {}

// Two runs would answer everything twice.
Result<void> BatchOutput::take_lock() {
  if (::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) return {};
  if (errno != EWOULDBLOCK) return file_error("lock", name_);
  return invalid_argument(fmt::format("another process writes to '{}'", name_));
}

Result<void> BatchOutput::read_answers(
    const BatchOutputOptions& options, AnsweredRequests& answered
) {
  // A look at its first bytes spares reading what is another file altogether.
  std::array<char, kBatchAnswerHead.size()> head;
  const ssize_t num_bytes = ::pread(fd_.get(), head.data(), head.size(), 0);
  if (num_bytes < 0) return file_error("read", name_);
  if (!is_torn_answer({head.data(), static_cast<size_t>(num_bytes)})) {
    return foreign_file(name_, 1, "begins with something else");
  }
  bool has_failed = false;
  std::optional<uint64_t> torn_at;
  const auto take = [&](const JsonlLine& line) -> Result<void> {
    if (!line.is_ended) {
      if (!is_torn_answer(line.text)) return foreign_file(name_, line.number, "has no end");
      torn_at = line.bytes_read - line.text.size();
      return {};
    }
    const Result<BatchAnswerLine> answer = read_batch_answer(line.text);
    if (!answer) return foreign_file(name_, line.number, answer.error().message);
    has_failed = has_failed || answer->is_failed;
    if (!answer->is_failed || !options.retry_failed) answered.add(*answer);
    return {};
  };
  if (auto read = for_each_line(name_, take); !read) return read;
  if (torn_at && ::ftruncate(fd_.get(), static_cast<off_t>(*torn_at)) != 0) {
    return file_error("cut the torn last line of", name_);
  }
  return has_failed && options.retry_failed ? take_failed_out() : Result<void>();
}

// The lines that stay go to a file of their own, which then takes the place of this one: at each
// moment there is one that is whole.
Result<void> BatchOutput::take_failed_out() {
  std::error_code error;
  const std::filesystem::path place = std::filesystem::canonical(name_, error);
  if (error) return invalid_argument(fmt::format("cannot find '{}': {}", name_, error.message()));
  const std::string kept_path = place.string() + ".kept";
  struct stat status {};
  if (::fstat(fd_.get(), &status) != 0) return file_error("inspect", name_);
  const int fd = ::open(
      kept_path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, status.st_mode & 0777
  );
  if (fd < 0) return file_error("open", kept_path);
  http::UniqueFd kept(fd);
  const auto keep = [&](const JsonlLine& line) -> Result<void> {
    const Result<BatchAnswerLine> answer = read_batch_answer(line.text);
    if (!answer || answer->is_failed) return {};
    return write_all(fd, line.text + "\n", kept_path);
  };
  if (auto written = for_each_line(name_, keep); !written) return written;
  if (::fsync(fd) != 0) return file_error("write to", kept_path);
  if (::rename(kept_path.c_str(), place.c_str()) != 0) return file_error("replace", name_);
  fd_ = std::move(kept);
  return take_lock();
}

Result<void> BatchOutput::append(std::string_view line) {
  if (auto written = write_all(fd_.get(), line, name_); !written) return written;
  is_dirty_ = true;
  return Clock::now() - synced_ >= kSyncInterval ? sync() : Result<void>();
}

Result<void> BatchOutput::sync() {
  synced_ = Clock::now();
  if (!is_file_ || !std::exchange(is_dirty_, false)) return {};
  return ::fdatasync(fd_.get()) == 0 ? Result<void>() : file_error("write to", name_);
}

}  // namespace millrace
