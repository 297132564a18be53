#include "checkpoint/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "base/math.h"
#include "checkpoint/printable.h"

namespace millrace {
namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignmentDefault = 32;
constexpr uint64_t kAlignmentMax = 1 << 20;
constexpr uint32_t kRankMax = 4;

struct TensorType {
  uint32_t id;
  std::string_view name;
  uint64_t block_elements;
  uint64_t block_bytes;
  StorageType storage;
};

// Sizes of the types that GGUF names, also of those that cannot be read, so that the place of every
// tensor can be checked.
constexpr std::array kTensorTypes = {
    TensorType{0, "F32", 1, 4, StorageType::kF32},
    TensorType{1, "F16", 1, 2, StorageType::kF16},
    TensorType{2, "Q4_0", 32, 18, StorageType::kQ4_0},
    TensorType{3, "Q4_1", 32, 20, StorageType::kQ4_1},
    TensorType{6, "Q5_0", 32, 22, StorageType::kQ5_0},
    TensorType{7, "Q5_1", 32, 24, StorageType::kQ5_1},
    TensorType{8, "Q8_0", 32, 34, StorageType::kQ8_0},
    TensorType{9, "Q8_1", 32, 36, StorageType::kOther},
    TensorType{10, "Q2_K", 256, 84, StorageType::kQ2_K},
    TensorType{11, "Q3_K", 256, 110, StorageType::kQ3_K},
    TensorType{12, "Q4_K", 256, 144, StorageType::kQ4_K},
    TensorType{13, "Q5_K", 256, 176, StorageType::kQ5_K},
    TensorType{14, "Q6_K", 256, 210, StorageType::kQ6_K},
    TensorType{15, "Q8_K", 256, 292, StorageType::kOther},
    TensorType{16, "IQ2_XXS", 256, 66, StorageType::kOther},
    TensorType{17, "IQ2_XS", 256, 74, StorageType::kOther},
    TensorType{18, "IQ3_XXS", 256, 98, StorageType::kOther},
    TensorType{19, "IQ1_S", 256, 50, StorageType::kOther},
    TensorType{20, "IQ4_NL", 32, 18, StorageType::kIQ4_NL},
    TensorType{21, "IQ3_S", 256, 110, StorageType::kOther},
    TensorType{22, "IQ2_S", 256, 82, StorageType::kOther},
    TensorType{23, "IQ4_XS", 256, 136, StorageType::kIQ4_XS},
    TensorType{24, "I8", 1, 1, StorageType::kOther},
    TensorType{25, "I16", 1, 2, StorageType::kOther},
    TensorType{26, "I32", 1, 4, StorageType::kOther},
    TensorType{27, "I64", 1, 8, StorageType::kOther},
    TensorType{28, "F64", 1, 8, StorageType::kOther},
    TensorType{29, "IQ1_M", 256, 56, StorageType::kOther},
    TensorType{30, "BF16", 1, 2, StorageType::kBF16},
    TensorType{34, "TQ1_0", 256, 54, StorageType::kOther},
    TensorType{35, "TQ2_0", 256, 66, StorageType::kOther},
    TensorType{39, "MXFP4", 32, 17, StorageType::kOther},
};

const TensorType* find_type(uint32_t id) {
  for (const TensorType& type : kTensorTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

// Bytes of one value of a type of fixed size; none for strings and arrays.
std::optional<uint64_t> fixed_size(GgufValueType type) {
  switch (type) {
    case GgufValueType::kUint8:
    case GgufValueType::kInt8:
    case GgufValueType::kBool:
      return 1;
    case GgufValueType::kUint16:
    case GgufValueType::kInt16:
      return 2;
    case GgufValueType::kUint32:
    case GgufValueType::kInt32:
    case GgufValueType::kFloat32:
      return 4;
    case GgufValueType::kUint64:
    case GgufValueType::kInt64:
    case GgufValueType::kFloat64:
      return 8;
    case GgufValueType::kString:
    case GgufValueType::kArray:
      return std::nullopt;
  }
  return std::nullopt;
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// REQUIRES: fixed_size(type) bytes at `from`.
GgufValue load_scalar(GgufValueType type, const std::byte* from) {
  switch (type) {
    case GgufValueType::kUint8:
      return uint64_t{load<uint8_t>(from)};
    case GgufValueType::kInt8:
      return int64_t{load<int8_t>(from)};
    case GgufValueType::kUint16:
      return uint64_t{load<uint16_t>(from)};
    case GgufValueType::kInt16:
      return int64_t{load<int16_t>(from)};
    case GgufValueType::kUint32:
      return uint64_t{load<uint32_t>(from)};
    case GgufValueType::kInt32:
      return int64_t{load<int32_t>(from)};
    case GgufValueType::kUint64:
      return load<uint64_t>(from);
    case GgufValueType::kInt64:
      return load<int64_t>(from);
    case GgufValueType::kFloat32:
      return load<float>(from);
    case GgufValueType::kFloat64:
      return load<double>(from);
    case GgufValueType::kBool:
      return load<uint8_t>(from) != 0;
    case GgufValueType::kString:
    case GgufValueType::kArray:
      break;
  }
  CHECK(false, "not a scalar type");
  return false;
}

Error gguf_error(std::string message) {
  return invalid_argument("GGUF: " + std::move(message));
}

// Reads forward through the file; every step says what it wanted when the file ends.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t num_left() const { return bytes_.size() - position_; }
  std::span<const std::byte> range(uint64_t begin, uint64_t end) const {
    return bytes_.subspan(begin, end - begin);
  }

  Result<std::span<const std::byte>> take(uint64_t size, std::string_view what) {
    if (size > num_left()) {
      return gguf_error(fmt::format(
          "the file ends within {}: {} bytes wanted at {}, {} left",
          what,
          size,
          position_,
          num_left()
      ));
    }
    const std::span<const std::byte> taken = bytes_.subspan(position_, size);
    position_ += size;
    return taken;
  }

  template <class T>
  Result<T> take_value(std::string_view what) {
    const Result<std::span<const std::byte>> bytes = take(sizeof(T), what);
    if (!bytes) return bytes.error();
    return load<T>(bytes->data());
  }

  Result<std::string_view> take_string(std::string_view what) {
    const Result<uint64_t> length = take_value<uint64_t>(what);
    if (!length) return length.error();
    const Result<std::span<const std::byte>> bytes = take(*length, what);
    if (!bytes) return bytes.error();
    return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

Result<GgufArray> take_array(Cursor& cursor, std::string_view key, int depth_left) {
  const Result<uint32_t> type = cursor.take_value<uint32_t>(key);
  if (!type) return type.error();
  const Result<uint64_t> count = cursor.take_value<uint64_t>(key);
  if (!count) return count.error();
  if (*type > static_cast<uint32_t>(GgufValueType::kFloat64)) {
    return gguf_error(fmt::format("key '{}': unknown array type {}", key, *type));
  }
  const auto element = static_cast<GgufValueType>(*type);
  const uint64_t begin = cursor.position();
  if (const std::optional<uint64_t> size = fixed_size(element)) {
    const std::optional<uint64_t> total = checked_mul(*size, *count);
    if (!total) return gguf_error(fmt::format("key '{}': {} elements", key, *count));
    const Result<std::span<const std::byte>> bytes = cursor.take(*total, key);
    if (!bytes) return bytes.error();
    return GgufArray{element, *count, *bytes};
  }
  if (element == GgufValueType::kArray && depth_left == 0) {
    return gguf_error(fmt::format("key '{}': arrays are nested too deep", key));
  }
  // Each string takes 8 bytes at least and each array 12, so that a false count ends here soon.
  for (uint64_t i = 0; i < *count; ++i) {
    if (element == GgufValueType::kString) {
      const Result<std::string_view> string = cursor.take_string(key);
      if (!string) return string.error();
    } else {
      const Result<GgufArray> inner = take_array(cursor, key, depth_left - 1);
      if (!inner) return inner.error();
    }
  }
  return GgufArray{element, *count, cursor.range(begin, cursor.position())};
}

Result<GgufValue> take_metadata_value(Cursor& cursor, std::string_view key, int depth_max) {
  const Result<uint32_t> type = cursor.take_value<uint32_t>(key);
  if (!type) return type.error();
  if (*type > static_cast<uint32_t>(GgufValueType::kFloat64)) {
    return gguf_error(fmt::format("key '{}': unknown value type {}", key, *type));
  }
  const auto value_type = static_cast<GgufValueType>(*type);
  if (value_type == GgufValueType::kArray) {
    const Result<GgufArray> array = take_array(cursor, key, depth_max);
    if (!array) return array.error();
    return GgufValue(*array);
  }
  if (value_type == GgufValueType::kString) {
    const Result<std::string_view> string = cursor.take_string(key);
    if (!string) return string.error();
    return GgufValue(*string);
  }
  const Result<std::span<const std::byte>> bytes = cursor.take(*fixed_size(value_type), key);
  if (!bytes) return bytes.error();
  if (value_type == GgufValueType::kBool && load<uint8_t>(bytes->data()) > 1) {
    return gguf_error(fmt::format("key '{}': a bool must be 0 or 1", key));
  }
  return load_scalar(value_type, bytes->data());
}

struct Header {
  uint64_t num_tensors = 0;
  uint64_t num_metadata = 0;
};

Result<Header> take_header(Cursor& cursor, const GgufLimits& limits) {
  const Result<uint32_t> magic = cursor.take_value<uint32_t>("the magic number");
  if (!magic) return magic.error();
  if (*magic != kMagic) return gguf_error("the file does not begin with \"GGUF\"");
  const Result<uint32_t> version = cursor.take_value<uint32_t>("the version");
  if (!version) return version.error();
  if (*version != kVersion) {
    return unsupported(fmt::format("GGUF: version {} is not supported, only {}", *version, kVersion)
    );
  }
  const Result<uint64_t> num_tensors = cursor.take_value<uint64_t>("the number of tensors");
  if (!num_tensors) return num_tensors.error();
  const Result<uint64_t> num_metadata = cursor.take_value<uint64_t>("the number of keys");
  if (!num_metadata) return num_metadata.error();
  if (*num_tensors > limits.tensors_max || *num_metadata > limits.metadata_max) {
    return gguf_error(fmt::format(
        "{} tensors and {} keys; at most {} and {}",
        *num_tensors,
        *num_metadata,
        limits.tensors_max,
        limits.metadata_max
    ));
  }
  return Header{*num_tensors, *num_metadata};
}

using Metadata = std::map<std::string, GgufValue, std::less<>>;

Result<Metadata> take_metadata(Cursor& cursor, uint64_t count, const GgufLimits& limits) {
  Metadata metadata;
  for (uint64_t i = 0; i < count; ++i) {
    const Result<std::string_view> key = cursor.take_string("a key");
    if (!key) return key.error();
    if (key->empty() || key->size() > limits.key_bytes_max) {
      return gguf_error(fmt::format("a key of {} bytes; 1 to {}", key->size(), limits.key_bytes_max)
      );
    }
    const std::string shown = printable(*key);
    Result<GgufValue> value = take_metadata_value(cursor, shown, limits.array_depth_max);
    if (!value) return value.error();
    if (!metadata.emplace(*key, *value).second) {
      return gguf_error(fmt::format("the key '{}' stands twice", shown));
    }
  }
  return metadata;
}

// A tensor's description, its place not checked yet.
struct TensorPlace {
  GgufTensor tensor;
  uint64_t offset = 0;  // from the beginning of the data
  uint64_t size = 0;
};

Result<std::vector<int64_t>> take_shape(
    Cursor& cursor, std::string_view shown, const GgufLimits& limits
) {
  const Result<uint32_t> rank = cursor.take_value<uint32_t>("the rank of a tensor");
  if (!rank) return rank.error();
  if (*rank == 0 || *rank > kRankMax) {
    return gguf_error(fmt::format("tensor '{}': rank {}; 1 to {}", shown, *rank, kRankMax));
  }
  std::vector<int64_t> shape;
  for (uint32_t i = 0; i < *rank; ++i) {
    const Result<uint64_t> dim = cursor.take_value<uint64_t>("the shape of a tensor");
    if (!dim) return dim.error();
    if (*dim == 0 || *dim > limits.dimension_max) {
      return gguf_error(
          fmt::format("tensor '{}': a dimension of {}; 1 to {}", shown, *dim, limits.dimension_max)
      );
    }
    shape.push_back(static_cast<int64_t>(*dim));
  }
  std::reverse(shape.begin(), shape.end());
  return shape;
}

// Bytes of the whole tensor; none when the row is not whole blocks or the product overflows.
std::optional<uint64_t> bytes_of(const std::vector<int64_t>& shape, const TensorType& type) {
  const auto row = static_cast<uint64_t>(shape.back());
  if (row % type.block_elements != 0) return std::nullopt;
  std::optional<uint64_t> elements = row;
  for (size_t i = 0; i + 1 < shape.size() && elements; ++i) {
    elements = checked_mul(*elements, static_cast<uint64_t>(shape[i]));
  }
  if (!elements || *elements > uint64_t{1} << 60) return std::nullopt;
  return checked_mul(*elements / type.block_elements, type.block_bytes);
}

Result<TensorPlace> take_tensor(Cursor& cursor, const GgufLimits& limits) {
  const Result<std::string_view> name = cursor.take_string("the name of a tensor");
  if (!name) return name.error();
  if (name->empty() || name->size() > limits.name_bytes_max) {
    return gguf_error(
        fmt::format("a tensor's name of {} bytes; 1 to {}", name->size(), limits.name_bytes_max)
    );
  }
  const std::string shown = printable(*name);
  Result<std::vector<int64_t>> shape = take_shape(cursor, shown, limits);
  if (!shape) return shape.error();
  const Result<uint32_t> type_id = cursor.take_value<uint32_t>("the type of a tensor");
  if (!type_id) return type_id.error();
  const Result<uint64_t> offset = cursor.take_value<uint64_t>("the offset of a tensor");
  if (!offset) return offset.error();
  const TensorType* type = find_type(*type_id);
  if (type == nullptr) {
    return unsupported(fmt::format("GGUF: tensor '{}': unknown type {}", shown, *type_id));
  }
  const std::optional<uint64_t> size = bytes_of(*shape, *type);
  if (!size) {
    return gguf_error(fmt::format(
        "tensor '{}': shape {} is not a possible shape of {}",
        shown,
        format_shape(*shape),
        type->name
    ));
  }
  TensorPlace place;
  place.tensor.name = *name;
  place.tensor.storage = type->storage;
  place.tensor.type_name = type->name;
  place.tensor.shape = std::move(*shape);
  place.offset = *offset;
  place.size = *size;
  return place;
}

Result<std::vector<TensorPlace>> take_tensors(
    Cursor& cursor, uint64_t count, const GgufLimits& limits
) {
  std::vector<TensorPlace> places;
  std::unordered_set<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    Result<TensorPlace> place = take_tensor(cursor, limits);
    if (!place) return place.error();
    if (!names.insert(place->tensor.name).second) {
      return gguf_error(fmt::format("tensor '{}' stands twice", printable(place->tensor.name)));
    }
    places.push_back(std::move(*place));
  }
  return places;
}

// Checks each place against the data and the others, and sets the tensors' bytes.
Result<void> place_tensors(
    std::vector<TensorPlace>& places, std::span<const std::byte> data, uint64_t alignment
) {
  std::vector<TensorPlace*> by_offset;
  for (TensorPlace& place : places) by_offset.push_back(&place);
  std::sort(by_offset.begin(), by_offset.end(), [](const TensorPlace* a, const TensorPlace* b) {
    return a->offset < b->offset;
  });
  uint64_t end_before = 0;
  for (TensorPlace* place : by_offset) {
    const std::string shown = printable(place->tensor.name);
    if (place->offset % alignment != 0) {
      return gguf_error(fmt::format(
          "tensor '{}': offset {} is not a multiple of {}", shown, place->offset, alignment
      ));
    }
    if (place->offset > data.size() || place->size > data.size() - place->offset) {
      return gguf_error(fmt::format(
          "tensor '{}': {} bytes at {} are not within the {} bytes of data",
          shown,
          place->size,
          place->offset,
          data.size()
      ));
    }
    if (place->offset < end_before) {
      return gguf_error(fmt::format("tensor '{}' overlaps another", shown));
    }
    end_before = place->offset + place->size;
    place->tensor.bytes = data.subspan(place->offset, place->size);
  }
  return {};
}

Result<uint64_t> read_alignment(const Metadata& metadata) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kAlignmentDefault;
  const uint64_t* alignment = std::get_if<uint64_t>(&found->second);
  if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment > kAlignmentMax) {
    return gguf_error(
        fmt::format("general.alignment must be a power of two of at most {}", kAlignmentMax)
    );
  }
  return *alignment;
}

}  // namespace

Result<GgufFile> GgufFile::parse(std::span<const std::byte> file, const GgufLimits& limits) {
  Cursor cursor(file);
  const Result<Header> header = take_header(cursor, limits);
  if (!header) return header.error();
  const size_t metadata_begin = cursor.position();
  Result<Metadata> metadata = take_metadata(cursor, header->num_metadata, limits);
  if (!metadata) return metadata.error();
  const size_t metadata_end = cursor.position();
  Result<std::vector<TensorPlace>> places = take_tensors(cursor, header->num_tensors, limits);
  if (!places) return places.error();
  const Result<uint64_t> alignment = read_alignment(*metadata);
  if (!alignment) return alignment.error();

  // Without tensors there is no data, and so no padding that leads to it.
  std::span<const std::byte> data;
  if (!places->empty()) {
    const uint64_t data_begin = round_up(cursor.position(), *alignment);
    if (data_begin > file.size()) return gguf_error("the file ends before its tensors' data");
    data = file.subspan(data_begin);
  }
  const Result<void> placed = place_tensors(*places, data, *alignment);
  if (!placed) return placed.error();

  GgufFile parsed;
  parsed.metadata_ = std::move(*metadata);
  parsed.metadata_bytes_ = file.subspan(metadata_begin, metadata_end - metadata_begin);
  for (TensorPlace& place : *places) parsed.tensors_.push_back(std::move(place.tensor));
  return parsed;
}

std::string GgufFile::without_tensors() const {
  std::string file;
  const auto append = [&file](const auto& value) {
    file.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  append(kMagic);
  append(kVersion);
  append(uint64_t{0});  // tensors
  append(uint64_t{metadata_.size()});
  file.append(reinterpret_cast<const char*>(metadata_bytes_.data()), metadata_bytes_.size());
  return file;
}

}  // namespace millrace
