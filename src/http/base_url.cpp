#include <algorithm>

#include "http/characters.h"
#include "http/client.h"
#include "http/target.h"

namespace millrace::http {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

Error malformed_url(std::string_view text) {
  return invalid_argument(
      "expected http://host:port/path, https://host:port/path or unix:PATH", std::string(text)
  );
}

}  // namespace

std::string BaseUrl::host_field() const {
  const auto* tcp = std::get_if<TcpAddress>(&address);
  if (tcp == nullptr) return "localhost";
  return to_string(*tcp);
}

Result<BaseUrl> parse_base_url(std::string_view text) {
  if (text.starts_with(kUnixPrefix)) {
    Result<Address> address = parse_address(text);
    if (!address) return address.error();
    return BaseUrl{.address = std::move(*address)};
  }
  const size_t mark = text.find("://");
  if (mark == std::string_view::npos) return malformed_url(text);
  const std::string_view scheme = text.substr(0, mark);
  BaseUrl url;
  url.is_tls = equals_ignoring_case(scheme, "https");
  if (!url.is_tls && !equals_ignoring_case(scheme, "http")) return malformed_url(text);
  const std::string_view rest = text.substr(mark + 3);
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view authority = rest.substr(0, slash);
  std::string_view path = rest.substr(slash);
  while (path.ends_with('/')) path.remove_suffix(1);
  if (authority.empty() || !is_valid_host(authority)) return malformed_url(text);
  const bool is_plain_path = std::all_of(path.begin(), path.end(), [](char c) {
    return is_visible(c) && c != '?' && c != '#';
  });
  if (!is_plain_path) return malformed_url(text);
  // In "[::1]:80" only a colon behind the bracket starts the port.
  const size_t bracket = authority.find(']');
  const size_t colon = authority.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const bool has_port = colon != std::string_view::npos && colon + 1 < authority.size();
  std::string full(authority.substr(0, colon));
  full += has_port ? std::string(authority.substr(colon)) : url.is_tls ? ":443" : ":80";
  Result<Address> address = parse_address(full);
  if (!address) return malformed_url(text);
  url.address = std::move(*address);
  url.path = path;
  return url;
}

}  // namespace millrace::http
