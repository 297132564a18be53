#include "results/names.h"

#include <array>
#include <span>

#include "base/check.h"

namespace millrace::bench {
namespace {

// In the order of the enumerators.
template <class Enum>
std::span<const std::string_view> names_of();

template <>
std::span<const std::string_view> names_of<LoadKind>() {
  static constexpr std::array<std::string_view, 5> kNames = {
      "concurrency", "constant", "gamma", "burst", "trace"};
  return kNames;
}

template <>
std::span<const std::string_view> names_of<StopReason>() {
  static constexpr std::array<std::string_view, 6> kNames = {
      "all_done", "max_seconds", "precise", "interrupted", "server_gone", "too_many_errors"};
  return kNames;
}

template <>
std::span<const std::string_view> names_of<Outcome>() {
  static constexpr std::array<std::string_view, 3> kNames = {"completed", "failed", "unfinished"};
  return kNames;
}

template <>
std::span<const std::string_view> names_of<FailureKind>() {
  static constexpr std::array<std::string_view, 9> kNames = {
      "connect",
      "tls",
      "timeout",
      "status",
      "malformed",
      "server_error",
      "closed",
      "empty",
      "client_limit"};
  return kNames;
}

template <>
std::span<const std::string_view> names_of<TokenSource>() {
  static constexpr std::array<std::string_view, 5> kNames = {
      "usage_deltas", "token_ids", "usage", "tokenizer", "chunks"};
  return kNames;
}

template <>
std::span<const std::string_view> names_of<Phase>() {
  static constexpr std::array<std::string_view, 3> kNames = {"warmup", "measured", "cooldown"};
  return kNames;
}

template <class Enum>
std::string_view name_of(Enum value) {
  const std::span<const std::string_view> names = names_of<Enum>();
  CHECK(static_cast<size_t>(value) < names.size(), "an enumerator without a name");
  return names[static_cast<size_t>(value)];
}

}  // namespace

std::string_view to_string(LoadKind kind) {
  return name_of(kind);
}
std::string_view to_string(StopReason reason) {
  return name_of(reason);
}
std::string_view to_string(Outcome outcome) {
  return name_of(outcome);
}
std::string_view to_string(FailureKind kind) {
  return name_of(kind);
}
std::string_view to_string(TokenSource source) {
  return name_of(source);
}
std::string_view to_string(Phase phase) {
  return name_of(phase);
}

template <class Enum>
std::optional<Enum> parse_name(std::string_view name) {
  const std::span<const std::string_view> names = names_of<Enum>();
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

template std::optional<LoadKind> parse_name(std::string_view);
template std::optional<StopReason> parse_name(std::string_view);
template std::optional<Outcome> parse_name(std::string_view);
template std::optional<FailureKind> parse_name(std::string_view);
template std::optional<TokenSource> parse_name(std::string_view);
template std::optional<Phase> parse_name(std::string_view);

}  // namespace millrace::bench
