#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "server/model_list.h"
#include "server/page.h"
#include "server/protocol/api_error.h"
#include "server/routes.h"

namespace millrace {
namespace {

using ExchangePtr = std::shared_ptr<http::Exchange>;

http::Response health_response(bool is_well, std::string_view reason) {
  const std::string body = json::serialize(json::object{
      {"status", is_well ? "ok" : "unavailable"}, {"reason", reason}});
  return http::json_response(is_well ? 200 : 503, body);
}

}  // namespace

Result<void> add_info_routes(http::Router& router, ApiState& state, CountersReader) {
  for (const char* pattern : {"/health", "/readyz", "/livez"}) {
    auto added = router.add({.method = "GET", .pattern = pattern, .handler = [&state](const ExchangePtr& exchange) {
       const Health health = state.health();
       exchange->respond(health_response(health.is_ready, health.reason)); }, .is_public = true, .is_essential = true});
    if (!added) return added;
  }
  for (const std::string_view path : page_paths()) {
    auto added = router.add({.method = "GET", .pattern = std::string(path), .handler = [](const ExchangePtr& exchange) {
      exchange->respond(*page_file(exchange->request().path(), exchange->request().header("if-none-match"))); }, .is_public = true});
    if (!added) return added;
  }
  return {};
}

}  // namespace millrace
