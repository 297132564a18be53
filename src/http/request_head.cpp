#include "http/request_head.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "http/characters.h"

namespace millrace::http {
namespace {

constexpr size_t kMethodBytesMax = 32;

// Fields of which a second one could be read differently by the next party on the way.
constexpr std::array<std::string_view, 7> kSingleFields = {
    "host",
    "content-length",
    "transfer-encoding",
    "content-type",
    "content-encoding",
    "authorization",
    "expect",
};

struct RequestLine {
  std::string_view method;
  std::string_view target;
  std::string_view version;
};

// Exactly three words and two single spaces.
std::optional<RequestLine> split_request_line(std::string_view line) {
  const size_t first = line.find(' ');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = line.find(' ', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  return RequestLine{
      line.substr(0, first),
      line.substr(first + 1, second - first - 1),
      line.substr(second + 1),
  };
}

bool is_method(std::string_view method) {
  return !method.empty() && method.size() <= kMethodBytesMax &&
         std::all_of(method.begin(), method.end(), is_token_char);
}

std::optional<Refusal> check_version(std::string_view version) {
  if (version.size() != 8 || !version.starts_with("HTTP/") || !is_digit(version[5]) ||
      version[6] != '.' || !is_digit(version[7])) {
    return refuse_malformed("the request line must end with HTTP/1.1 or HTTP/1.0");
  }
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    return refuse(505, "http_version_not_supported", "expected HTTP/1.1 or HTTP/1.0");
  }
  return std::nullopt;
}

// Digits only; nullopt for anything else and for what does not fit 63 bits.
std::optional<uint64_t> parse_content_length(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  if (!std::all_of(text.begin(), text.end(), is_digit)) return std::nullopt;
  uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// Tokens between commas, with spaces around them; members may be empty (RFC 9110, 5.6.1.2).
bool is_token_list(std::string_view list) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    const std::string_view member = trim(list.substr(0, comma));
    if (!std::all_of(member.begin(), member.end(), is_token_char)) return false;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return true;
}

bool has_list_member(std::string_view list, std::string_view member) {
  while (!list.empty()) {
    const size_t comma = std::min(list.find(','), list.size());
    if (equals_ignoring_case(trim(list.substr(0, comma)), member)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

}  // namespace

std::optional<std::string_view> RequestHead::header(std::string_view name) const {
  for (const Field& field : fields_) {
    if (field.name.size == name.size() && equals_ignoring_case(view(field.name), name)) {
      return view(field.value);
    }
  }
  return std::nullopt;
}

std::optional<Refusal> check_request_line(std::string_view line, const HttpLimits& limits) {
  const std::optional<RequestLine> words = split_request_line(line);
  if (!words || !is_method(words->method)) {
    return refuse_malformed("expected a request line: METHOD target HTTP/1.1");
  }
  if (words->target.size() > limits.target_bytes_max) {
    return refuse(414, "uri_too_long", "the request target is too long");
  }
  return check_version(words->version);
}

bool may_be_trailer(std::string_view name) {
  const auto is_name = [&](std::string_view other) { return equals_ignoring_case(other, name); };
  return !std::any_of(kSingleFields.begin(), kSingleFields.end(), is_name) &&
         !is_name("connection") && !is_name("proxy-connection");
}

std::optional<size_t> find_field_colon(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  if (!std::all_of(line.begin(), line.begin() + static_cast<ptrdiff_t>(colon), is_token_char)) {
    return std::nullopt;
  }
  const std::string_view value = line.substr(colon + 1);
  if (!std::all_of(value.begin(), value.end(), is_field_char)) return std::nullopt;
  return colon;
}

// Fills one RequestHead; each step gives the reason to refuse, or nothing.
class HeadReader {
 public:
  explicit HeadReader(std::string bytes) { head_.bytes_ = std::move(bytes); }

  std::variant<RequestHead, Refusal> read(const HttpLimits& limits) {
    if (std::optional<Refusal> refusal = read_line_and_fields(limits)) return std::move(*refusal);
    for (const auto& check : {
             &HeadReader::check_single_fields,
             &HeadReader::check_host,
             &HeadReader::read_target,
             &HeadReader::read_framing,
             &HeadReader::read_coding,
             &HeadReader::read_expectation,
             &HeadReader::read_persistence,
         }) {
      if (std::optional<Refusal> refusal = (this->*check)()) return std::move(*refusal);
    }
    return std::move(head_);
  }

 private:
  using Slice = RequestHead::Slice;

  // REQUIRES: `part` is a part of the head, or empty.
  Slice slice_of(std::string_view part) const {
    if (part.empty()) return {};
    return {
        static_cast<uint32_t>(part.data() - head_.bytes_.data()),
        static_cast<uint32_t>(part.size()),
    };
  }

  std::optional<Refusal> read_line_and_fields(const HttpLimits& limits) {
    const std::string_view bytes = head_.bytes_;
    size_t end = bytes.find("\r\n");
    if (std::optional<Refusal> refusal = check_request_line(bytes.substr(0, end), limits)) {
      return refusal;
    }
    const RequestLine line = *split_request_line(bytes.substr(0, end));
    head_.method_ = slice_of(line.method);
    head_.raw_target_ = slice_of(line.target);
    head_.is_http_1_0_ = line.version == "HTTP/1.0";
    for (size_t begin = end + 2; begin + 2 < bytes.size(); begin = end + 2) {
      end = bytes.find("\r\n", begin);
      const std::string_view field = bytes.substr(begin, end - begin);
      const std::optional<size_t> colon = find_field_colon(field);
      if (!colon) return refuse_malformed("a header field is malformed");
      if (head_.fields_.size() == limits.num_headers_max) {
        return refuse(431, "too_many_headers", "the request has too many header fields");
      }
      head_.fields_.push_back(
          {slice_of(field.substr(0, *colon)), slice_of(trim(field.substr(*colon + 1)))}
      );
    }
    return std::nullopt;
  }

  std::optional<Refusal> check_single_fields() {
    for (const std::string_view name : kSingleFields) {
      const auto count = std::count_if(
          head_.fields_.begin(),
          head_.fields_.end(),
          [&](const RequestHead::Field& field) {
            return field.name.size == name.size() &&
                   equals_ignoring_case(head_.view(field.name), name);
          }
      );
      if (count > 1) {
        return refuse_malformed("the field '" + std::string(name) + "' must not be repeated");
      }
    }
    return std::nullopt;
  }

  std::optional<Refusal> check_host() {
    const std::optional<std::string_view> host = head_.header("host");
    if (!host && !head_.is_http_1_0_) return refuse_malformed("the field 'host' is missing");
    if (host && !is_valid_host(*host)) {
      return refuse_malformed("the field 'host' must be a host name or address and a port");
    }
    return std::nullopt;
  }

  std::optional<Refusal> read_target() {
    auto target = parse_target(head_.method(), head_.view(head_.raw_target_));
    if (auto* refusal = std::get_if<Refusal>(&target)) return std::move(*refusal);
    head_.target_ = std::move(*std::get_if<Target>(&target));
    return std::nullopt;
  }

  std::optional<Refusal> read_framing() {
    const std::optional<std::string_view> length = head_.header("content-length");
    const std::optional<std::string_view> encoding = head_.header("transfer-encoding");
    if (length && encoding) {
      return refuse_malformed("content-length and transfer-encoding exclude each other");
    }
    if (encoding) {
      if (head_.is_http_1_0_ || !equals_ignoring_case(*encoding, "chunked")) {
        return refuse_malformed("the only transfer-encoding is 'chunked', with HTTP/1.1");
      }
      head_.framing_ = BodyFraming::kChunked;
    }
    if (length) {
      const std::optional<uint64_t> value = parse_content_length(*length);
      if (!value) return refuse_malformed("content-length must be a decimal number");
      head_.framing_ = *value > 0 ? BodyFraming::kLength : BodyFraming::kNone;
      head_.content_length_ = *value;
    }
    return std::nullopt;
  }

  std::optional<Refusal> read_coding() {
    const std::optional<std::string_view> coding = head_.header("content-encoding");
    if (!coding || coding->empty() || equals_ignoring_case(*coding, "identity")) {
      return std::nullopt;
    }
    if (!equals_ignoring_case(*coding, "gzip") && !equals_ignoring_case(*coding, "x-gzip")) {
      return refuse(415, "unsupported_content_encoding", "the only content-encoding is 'gzip'");
    }
    head_.coding_ = ContentCoding::kGzip;
    return std::nullopt;
  }

  std::optional<Refusal> read_expectation() {
    const std::optional<std::string_view> expectation = head_.header("expect");
    // RFC 9110, 10.1.1: an HTTP/1.0 client cannot be sent 100, so its expectation is ignored.
    if (!expectation || head_.is_http_1_0_) return std::nullopt;
    if (!equals_ignoring_case(*expectation, "100-continue")) {
      return refuse(417, "expectation_failed", "the only expectation is '100-continue'");
    }
    head_.expects_continue_ = head_.framing_ != BodyFraming::kNone;
    return std::nullopt;
  }

  std::optional<Refusal> read_persistence() {
    head_.is_keep_alive_ = !head_.is_http_1_0_;
    bool is_closing = false;
    for (const RequestHead::Field& field : head_.fields_) {
      if (!equals_ignoring_case(head_.view(field.name), "connection")) continue;
      const std::string_view value = head_.view(field.value);
      if (!is_token_list(value)) return refuse_malformed("the field 'connection' is malformed");
      is_closing = is_closing || has_list_member(value, "close");
      if (has_list_member(value, "keep-alive")) head_.is_keep_alive_ = true;
    }
    if (is_closing) head_.is_keep_alive_ = false;
    return std::nullopt;
  }

  RequestHead head_;
};

std::variant<RequestHead, Refusal> parse_head(std::string bytes, const HttpLimits& limits) {
  return HeadReader(std::move(bytes)).read(limits);
}

}  // namespace millrace::http
