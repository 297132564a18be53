#include "http/service.h"

#include <exception>
#include <utility>

namespace millrace::http {

Response Service::render_plain(const Refusal& refusal) {
  return text_response(refusal.status, refusal.message + "\n");
}

Response Service::render(const Refusal& refusal) const {
  try {
    Response response = render_error(refusal);
    response.status = refusal.status;
    return response;
  } catch (const std::exception& exception) {
    log_line(std::string("the error renderer threw: ") + exception.what());
  } catch (...) {
    log_line("the error renderer threw");
  }
  return render_plain(refusal);
}

std::variant<const Route*, Response> Service::admit(Request& request, bool is_surplus) const {
  auto found = router.find(request.method(), request.path());
  if (const auto* none = std::get_if<Router::NoRoute>(&found)) {
    if (none->allowed.empty()) return render(refuse(404, "not_found", "there is no such path"));
    std::string allow;
    for (const std::string& method : none->allowed) {
      allow.append(allow.empty() ? "" : ", ").append(method);
    }
    Response response =
        request.method() == "OPTIONS"
            ? Response{.status = 204}
            : render(refuse(405, "method_not_allowed", "the path does not have this method"));
    if (response.status == 204) response.headers = CorsPolicy::preflight_headers(request, allow);
    response.headers.push_back({"allow", std::move(allow)});
    return response;
  }
  auto& match = *std::get_if<Router::Match>(&found);
  request.path_values = std::move(match.path_values);
  if (is_surplus && !match.route->is_essential) {
    Response response = render(refuse(503, "too_many_connections", "the server is full"));
    response.headers.push_back({"retry-after", "1"});
    return response;
  }
  if (match.route->is_kept_from_foreign_pages && cors.is_foreign(request)) {
    return render(refuse(403, "foreign_origin", "pages of other origins may not ask for this"));
  }
  if (!guard) return match.route;
  try {
    std::optional<Response> response = guard(request, *match.route);
    if (response) return std::move(*response);
    return match.route;
  } catch (const std::exception& exception) {
    log_line(std::string("the guard threw: ") + exception.what());
  } catch (...) {
    log_line("the guard threw");
  }
  // A guard that cannot decide admits nobody.
  return render(refuse(500, "internal_error", "the server made a mistake"));
}

}  // namespace millrace::http
