// The header's rules. Opening files is in safetensors.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/json.h"
#include "base/math.h"
#include "checkpoint/printable.h"
#include "checkpoint/safetensors.h"

namespace millrace {
namespace {

constexpr size_t kLengthBytes = 8;

struct Dtype {
  std::string_view name;
  size_t bits;
  StorageType storage;
};

constexpr std::array kDtypes = {
    Dtype{"F32", 32, StorageType::kF32},          Dtype{"F16", 16, StorageType::kF16},
    Dtype{"BF16", 16, StorageType::kBF16},        Dtype{"BOOL", 8, StorageType::kOther},
    Dtype{"F4", 4, StorageType::kOther},          Dtype{"F6_E2M3", 6, StorageType::kOther},
    Dtype{"F6_E3M2", 6, StorageType::kOther},     Dtype{"U8", 8, StorageType::kOther},
    Dtype{"I8", 8, StorageType::kOther},          Dtype{"F8_E5M2", 8, StorageType::kOther},
    Dtype{"F8_E4M3", 8, StorageType::kOther},     Dtype{"F8_E8M0", 8, StorageType::kOther},
    Dtype{"F8_E4M3FNUZ", 8, StorageType::kOther}, Dtype{"F8_E5M2FNUZ", 8, StorageType::kOther},
    Dtype{"I16", 16, StorageType::kOther},        Dtype{"U16", 16, StorageType::kOther},
    Dtype{"I32", 32, StorageType::kOther},        Dtype{"U32", 32, StorageType::kOther},
    Dtype{"C64", 64, StorageType::kOther},        Dtype{"F64", 64, StorageType::kOther},
    Dtype{"I64", 64, StorageType::kOther},        Dtype{"U64", 64, StorageType::kOther},
};

const Dtype* find_dtype(std::string_view name) {
  for (const Dtype& dtype : kDtypes) {
    if (dtype.name == name) return &dtype;
  }
  return nullptr;
}

Error header_error(std::string message) {
  return invalid_argument("safetensors header: " + std::move(message));
}

Error tensor_error(std::string_view name, std::string_view message) {
  return invalid_argument(
      fmt::format("safetensors header: tensor '{}': {}", printable(name), message), printable(name)
  );
}

// The JSON text, and where the tensors' bytes begin.
struct Sections {
  std::string_view header;
  std::span<const std::byte> data;
};

Result<Sections> split(std::span<const std::byte> file, const SafetensorsLimits& limits) {
  if (file.size() < kLengthBytes) {
    return header_error(
        fmt::format("the file has {} bytes, not even the 8 of the header's length", file.size())
    );
  }
  uint64_t length = 0;
  std::memcpy(&length, file.data(), kLengthBytes);
  if (length > limits.header_bytes_max) {
    return header_error(
        fmt::format("its length {} is above the limit of {}", length, limits.header_bytes_max)
    );
  }
  if (length > file.size() - kLengthBytes) {
    return header_error(fmt::format(
        "its length {} is more than the {} bytes that follow", length, file.size() - kLengthBytes
    ));
  }
  const auto* text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  if (length == 0 || *text != '{') return header_error("it does not begin with '{'");
  return Sections{
      .header = {text, static_cast<size_t>(length)},
      .data = file.subspan(kLengthBytes + static_cast<size_t>(length)),
  };
}

// A non-negative integer written as one.
std::optional<int64_t> count_of(const json::value& value) {
  const int64_t* count = value.if_int64();
  if (count == nullptr || *count < 0) return std::nullopt;
  return *count;
}

struct Range {
  size_t begin = 0;
  size_t end = 0;
};

struct Entry {
  TensorInfo info;
  Range range;
};

Result<std::vector<int64_t>> read_shape(
    std::string_view name, const json::value* value, const SafetensorsLimits& limits
) {
  const json::array* dims = value == nullptr ? nullptr : value->if_array();
  if (dims == nullptr) return tensor_error(name, "\"shape\" must be an array of integers");
  if (dims->size() > limits.rank_max) {
    return tensor_error(
        name, fmt::format("has {} dimensions; at most {}", dims->size(), limits.rank_max)
    );
  }
  std::vector<int64_t> shape;
  for (const json::value& dim : *dims) {
    const std::optional<int64_t> size = count_of(dim);
    if (!size) return tensor_error(name, "\"shape\" must hold integers from 0 to 2^63 - 1");
    shape.push_back(*size);
  }
  return shape;
}

Result<Range> read_offsets(std::string_view name, const json::value* value, size_t data_size) {
  const json::array* pair = value == nullptr ? nullptr : value->if_array();
  if (pair == nullptr || pair->size() != 2) {
    return tensor_error(name, "\"data_offsets\" must be an array of two integers");
  }
  const std::optional<int64_t> begin = count_of((*pair)[0]);
  const std::optional<int64_t> end = count_of((*pair)[1]);
  if (!begin || !end) return tensor_error(name, "\"data_offsets\" must hold integers from 0");
  if (*begin > *end || static_cast<uint64_t>(*end) > data_size) {
    return tensor_error(
        name,
        fmt::format("\"data_offsets\" [{}, {}] are not within {} bytes", *begin, *end, data_size)
    );
  }
  return Range{static_cast<size_t>(*begin), static_cast<size_t>(*end)};
}

// Bytes of a tensor; nullopt when they overflow or do not fill the last byte.
std::optional<size_t> bytes_of(const std::vector<int64_t>& shape, const Dtype& dtype) {
  size_t bits = dtype.bits;
  // A zero anywhere makes the tensor empty; the others must still multiply without overflow, as in
  // the reference implementation.
  for (const int64_t dim : shape) {
    const std::optional<size_t> product = checked_mul(bits, static_cast<size_t>(dim));
    if (!product) return std::nullopt;
    bits = *product;
  }
  if (bits % 8 != 0) return std::nullopt;
  return bits / 8;
}

Result<Entry> read_entry(
    std::string_view name,
    const json::value& value,
    size_t data_size,
    const SafetensorsLimits& limits
) {
  const json::object* fields = value.if_object();
  if (fields == nullptr) return tensor_error(name, "must be an object");
  if (fields->size() > 3) {
    return tensor_error(name, "holds more than \"dtype\", \"shape\" and \"data_offsets\"");
  }
  const json::value* dtype_value = fields->if_contains("dtype");
  const json::string* dtype_name = dtype_value == nullptr ? nullptr : dtype_value->if_string();
  if (dtype_name == nullptr) return tensor_error(name, "\"dtype\" must be a string");
  const Dtype* dtype = find_dtype({dtype_name->data(), dtype_name->size()});
  if (dtype == nullptr) {
    return tensor_error(
        name, fmt::format("unknown dtype '{}'", printable({dtype_name->data(), dtype_name->size()}))
    );
  }
  Result<std::vector<int64_t>> shape = read_shape(name, fields->if_contains("shape"), limits);
  if (!shape) return shape.error();
  const Result<Range> range = read_offsets(name, fields->if_contains("data_offsets"), data_size);
  if (!range) return range.error();
  const std::optional<size_t> num_bytes = bytes_of(*shape, *dtype);
  if (!num_bytes || *num_bytes != range->end - range->begin) {
    return tensor_error(
        name,
        fmt::format(
            "shape {} of {} does not take the {} bytes of its offsets",
            format_shape(*shape),
            dtype->name,
            range->end - range->begin
        )
    );
  }
  Entry entry;
  entry.info = {.name = std::string(name), .storage = dtype->storage, .shape = std::move(*shape)};
  if (dtype->storage == StorageType::kOther) entry.info.storage_name = dtype->name;
  entry.range = *range;
  return entry;
}

Result<void> read_metadata(const json::value& value, SafetensorsHeader& header) {
  const json::object* pairs = value.if_object();
  if (pairs == nullptr) return header_error("\"__metadata__\" must be an object");
  for (const auto& [key, text] : *pairs) {
    if (!text.is_string()) {
      return header_error(fmt::format(
          "\"__metadata__\": '{}' must be a string", printable({key.data(), key.size()})
      ));
    }
    header.metadata.emplace_back(key, std::string_view(text.get_string()));
  }
  return {};
}

// Sorts by place and checks that the tensors lie end to end from 0 to `data_size`.
Result<void> check_cover(std::vector<Entry>& entries, size_t data_size) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.range.begin, a.range.end) < std::pair(b.range.begin, b.range.end);
  });
  size_t covered = 0;
  for (const Entry& entry : entries) {
    if (entry.range.begin != covered) {
      return tensor_error(
          entry.info.name,
          fmt::format(
              "begins at byte {} where {} was expected: tensors must lie end to end",
              entry.range.begin,
              covered
          )
      );
    }
    covered = entry.range.end;
  }
  if (covered != data_size) {
    return header_error(
        fmt::format("the tensors take {} bytes, the file holds {}", covered, data_size)
    );
  }
  return {};
}

}  // namespace

Result<SafetensorsHeader> parse_safetensors(
    std::span<const std::byte> file, const SafetensorsLimits& limits
) {
  const Result<Sections> sections = split(file, limits);
  if (!sections) return sections.error();
  // An entry is an object that holds an array: three levels, and one to spare.
  const Result<json::value> parsed = parse_json(sections->header, {.depth_max = 4});
  if (!parsed) return header_error(parsed.error().message);

  SafetensorsHeader header;
  std::vector<Entry> entries;
  for (const auto& [key, value] : parsed->get_object()) {
    const std::string_view name(key.data(), key.size());
    if (name == "__metadata__") {
      const Result<void> metadata = read_metadata(value, header);
      if (!metadata) return metadata.error();
      continue;
    }
    Result<Entry> entry = read_entry(name, value, sections->data.size(), limits);
    if (!entry) return entry.error();
    entries.push_back(std::move(*entry));
  }
  const Result<void> cover = check_cover(entries, sections->data.size());
  if (!cover) return cover.error();
  for (Entry& entry : entries) {
    const size_t num_bytes = entry.range.end - entry.range.begin;
    header.tensors.push_back(
        {std::move(entry.info), sections->data.subspan(entry.range.begin, num_bytes)}
    );
  }
  return header;
}

}  // namespace millrace
