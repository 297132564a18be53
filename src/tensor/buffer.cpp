#include "tensor/buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/math.h"

namespace millrace {
namespace {

constexpr size_t kSmallPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

Result<Buffer> Buffer::allocate(size_t num_bytes) {
  Buffer buffer;
  if (num_bytes == 0) return buffer;
  const bool huge = num_bytes >= kHugePage;
  // A mapping starts at a small page; the slack lets the buffer start at a huge one.
  const size_t slack = huge ? kHugePage : 0;
  const std::optional<size_t> wanted = checked_add(num_bytes, slack + kSmallPage);
  const size_t mapped = wanted ? round_up(*wanted - kSmallPage, kSmallPage) : 0;
  void* address = wanted ? ::mmap(
                               nullptr,
                               mapped,
                               PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                               -1,
                               0
                           )
                         : MAP_FAILED;
  if (address == MAP_FAILED) {
    return Error{
        ErrorCode::kResourceExhausted,
        fmt::format("cannot allocate {} bytes: {}", num_bytes, std::strerror(ENOMEM)),
        {}};
  }
  const auto start = reinterpret_cast<uintptr_t>(address);
  if (huge) ::madvise(address, mapped, MADV_HUGEPAGE);  // a wish: without it only speed is lost
  const uintptr_t aligned = round_up<uintptr_t>(start, huge ? kHugePage : kSmallPage);
  // The slack before `aligned` stays mapped, untouched and so without memory, until the end.
  buffer.bytes_ = {reinterpret_cast<std::byte*>(aligned), num_bytes};
  buffer.num_bytes_mapped_ = mapped;
  buffer.mapping_ = address;
  return buffer;
}

Buffer::Buffer(Buffer&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      mapping_(std::exchange(other.mapping_, nullptr)),
      num_bytes_mapped_(std::exchange(other.num_bytes_mapped_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(mapping_, other.mapping_);
  std::swap(num_bytes_mapped_, other.num_bytes_mapped_);
  return *this;
}

Buffer::~Buffer() {
  if (mapping_ != nullptr) ::munmap(mapping_, num_bytes_mapped_);
}

}  // namespace millrace
