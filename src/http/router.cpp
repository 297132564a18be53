#include "http/router.h"

#include <algorithm>
#include <set>

namespace millrace::http {
namespace {

constexpr std::string_view kRestMark = "...";

// What Allow lists for these routes: HEAD comes with GET, OPTIONS always.
std::vector<std::string> methods_of(const std::vector<const Route*>& routes) {
  std::set<std::string> methods = {"OPTIONS"};
  for (const Route* route : routes) {
    methods.insert(route->method);
    if (route->method == "GET") methods.insert("HEAD");
  }
  return {methods.begin(), methods.end()};
}

const Route* route_of_method(const std::vector<const Route*>& routes, std::string_view method) {
  const auto found = std::find_if(routes.begin(), routes.end(), [&](const Route* route) {
    return route->method == method;
  });
  return found == routes.end() ? nullptr : *found;
}

}  // namespace

Result<std::vector<Router::Segment>> Router::parse_pattern(std::string_view pattern) {
  if (!pattern.starts_with('/')) return invalid_argument("a pattern starts with '/'");
  if (pattern.size() > 1 && pattern.ends_with('/')) {
    return invalid_argument("a pattern does not end with '/'");
  }
  std::vector<Segment> segments;
  std::string_view rest = pattern.substr(1);
  while (!rest.empty() || segments.empty()) {
    const size_t slash = std::min(rest.find('/'), rest.size());
    std::string_view text = rest.substr(0, slash);
    Segment segment;
    if (text.starts_with('{') && text.ends_with('}')) {
      text = text.substr(1, text.size() - 2);
      segment.kind = text.ends_with(kRestMark) ? Segment::Kind::kRest : Segment::Kind::kName;
      if (segment.kind == Segment::Kind::kRest) text.remove_suffix(kRestMark.size());
    }
    if (text.empty() && pattern != "/") return invalid_argument("a segment is empty");
    if (!segments.empty() && segments.back().kind == Segment::Kind::kRest) {
      return invalid_argument("a name for the rest stands at the end");
    }
    segment.text = text;
    segments.push_back(std::move(segment));
    rest.remove_prefix(std::min(slash + 1, rest.size()));
  }
  return segments;
}

bool Router::is_before(const Pattern& a, const Pattern& b) {
  return std::lexicographical_compare(
      a.segments.begin(),
      a.segments.end(),
      b.segments.begin(),
      b.segments.end(),
      [](const Segment& x, const Segment& y) {
        if (x.kind != y.kind) return x.kind < y.kind;
        return x.kind == Segment::Kind::kLiteral && x.text < y.text;
      }
  );
}

Result<void> Router::add(Route route) {
  Result<std::vector<Segment>> segments = parse_pattern(route.pattern);
  if (!segments) return invalid_argument(segments.error().message, route.pattern);
  Pattern pattern{.segments = std::move(*segments)};
  auto place = std::lower_bound(patterns_.begin(), patterns_.end(), pattern, is_before);
  const bool is_known = place != patterns_.end() && !is_before(pattern, *place);
  if (is_known && route_of_method(place->routes, route.method) != nullptr) {
    return invalid_argument("there is such a route already", route.method + " " + route.pattern);
  }
  routes_.push_back(std::make_unique<Route>(std::move(route)));
  if (!is_known) place = patterns_.insert(place, std::move(pattern));
  place->routes.push_back(routes_.back().get());
  return {};
}

bool Router::matches(const Pattern& pattern, std::string_view path, Match& match) {
  match.path_values.clear();
  std::string_view rest = path.substr(1);
  bool is_at_end = false;
  for (const Segment& segment : pattern.segments) {
    if (is_at_end) return false;
    if (segment.kind == Segment::Kind::kRest) {
      match.path_values.emplace_back(segment.text, rest);
      return !rest.empty();
    }
    const size_t slash = rest.find('/');
    const std::string_view text = rest.substr(0, slash);
    is_at_end = slash == std::string_view::npos;
    rest.remove_prefix(is_at_end ? rest.size() : slash + 1);
    if (segment.kind == Segment::Kind::kLiteral) {
      if (text != segment.text) return false;
    } else {
      if (text.empty()) return false;
      match.path_values.emplace_back(segment.text, text);
    }
  }
  return is_at_end;
}

std::vector<std::string> Router::all_methods() const {
  std::vector<const Route*> all;
  for (const auto& route : routes_) all.push_back(route.get());
  return methods_of(all);
}

std::variant<Router::Match, Router::NoRoute> Router::find(
    std::string_view method, std::string_view path
) const {
  if (!path.starts_with('/')) return NoRoute{.allowed = all_methods()};
  const bool is_refused = method == "CONNECT" || method == "TRACE";
  Match match;
  std::vector<const Route*> matching;  // of another method
  for (const Pattern& pattern : patterns_) {
    if (!matches(pattern, path, match)) continue;
    if (!is_refused) {
      match.route = route_of_method(pattern.routes, method);
      if (match.route == nullptr && method == "HEAD") {
        match.route = route_of_method(pattern.routes, "GET");
      }
      if (match.route != nullptr) return match;
    }
    matching.insert(matching.end(), pattern.routes.begin(), pattern.routes.end());
  }
  if (!matching.empty()) return NoRoute{.allowed = methods_of(matching)};
  return NoRoute{.allowed = is_refused ? all_methods() : std::vector<std::string>{}};
}

}  // namespace millrace::http
