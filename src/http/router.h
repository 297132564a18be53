// Which handler answers which method and path, and what is said where there is none.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "http/exchange.h"
#include "http/request.h"
#include "http/status.h"

namespace millrace::http {

// Runs on an I/O thread: what takes longer than some 100 us goes to another thread. An exception
// that it throws becomes a 500.
using Handler = std::function<void(std::shared_ptr<Exchange>)>;

struct Route {
  std::string method;  // upper case
  // Literal segments, "{name}" for one segment, "{name...}" at the end for one or more.
  std::string pattern;
  Handler handler;
  bool is_public = false;                   // for the guard: asks for no key
  bool is_essential = false;                // answered on surplus connections too: health probes
  bool is_kept_from_foreign_pages = false;  // CorsPolicy::is_foreign(): 403
};

// Filled before the server starts, read-only afterwards: then thread-safe.
class Router {
 public:
  // kInvalidArgument: a pattern that does not start with '/', with an empty segment or name, with
  // "{name...}" before the end, or a route that exists already.
  Result<void> add(Route route);

  const std::vector<std::unique_ptr<Route>>& routes() const { return routes_; }

  // Not found, or found with other methods only.
  struct NoRoute {
    std::vector<std::string> allowed;  // methods for the Allow field; empty: no such path
  };
  struct Match {
    const Route* route = nullptr;
    std::vector<std::pair<std::string, std::string>> path_values;
  };
  // A literal segment goes before a name, for each segment from the left; "{name...}" comes last.
  // HEAD finds the GET route where it has none of its own. CONNECT and TRACE never match.
  std::variant<Match, NoRoute> find(std::string_view method, std::string_view path) const;

 private:
  struct Segment {
    enum class Kind { kLiteral, kName, kRest };
    Kind kind = Kind::kLiteral;
    std::string text;  // the literal, or the name
  };
  struct Pattern {
    std::vector<Segment> segments;
    std::vector<const Route*> routes;  // one for each method
  };

  static Result<std::vector<Segment>> parse_pattern(std::string_view pattern);
  static bool is_before(const Pattern& a, const Pattern& b);
  static bool matches(const Pattern& pattern, std::string_view path, Match& match);
  std::vector<std::string> all_methods() const;

  std::vector<std::unique_ptr<Route>> routes_;
  std::vector<Pattern> patterns_;  // in the order in which they are tried
};

}  // namespace millrace::http
