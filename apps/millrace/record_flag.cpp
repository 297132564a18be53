#include "record_flag.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "http/unique_fd.h"

namespace millrace {
namespace {

// False: not all of it, and errno says why.
bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t num_written = ::write(fd, bytes.data(), bytes.size());
    if (num_written < 0 && errno == EINTR) continue;
    if (num_written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(num_written));
  }
  return true;
}

}  // namespace

void add_record_flag(CommandLine& line, std::string& path) {
  line.add(
      "--record",
      path,
      "new file to record all steps to, for `millrace replay`; it holds the token ids of prompts "
      "and answers"
  );
}

Result<void> record_steps(
    const std::string& path, std::function<void(std::string_view)> warn, EngineConfig& engine
) {
  if (path.empty()) return {};
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR);
  struct stat status {};
  // Shared by the copies of the function, which a function must allow.
  const auto file = std::make_shared<http::UniqueFd>(fd);
  if (fd < 0 || ::fstat(fd, &status) != 0) {
    return invalid_argument(
        fmt::format("cannot record to '{}': {}", path, std::strerror(errno)), path
    );
  }
  if (S_ISREG(status.st_mode) && status.st_size > 0) {
    return invalid_argument(
        fmt::format("cannot record to '{}': it holds something; expected a new file", path), path
    );
  }
  engine.record = [file, path, warn = std::move(warn)](std::string_view lines) {
    if (write_all(file->get(), lines)) return true;
    warn(fmt::format("the recording '{}' ends here: {}", path, std::strerror(errno)));
    return false;
  };
  return {};
}

}  // namespace millrace
