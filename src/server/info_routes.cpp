#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "model/config.h"
#include "server/model_list.h"
#include "server/openapi/openapi.h"
#include "server/page.h"
#include "server/protocol/api_error.h"
#include "server/routes.h"

namespace millrace {
namespace {

using ExchangePtr = std::shared_ptr<http::Exchange>;

ServedModel served_model(const Serving& serving) {
  return {
      .names = serving.model_names,
      .path = serving.model_path,
      .tokenizer_path = serving.model_path,
      .family = name_of(serving.model.config.family),
      .created_s = serving.created_s,
      .max_model_len = serving.model.engine->limits().num_sequence_tokens_max,
  };
}

// Collects the routes of one kind; the first that cannot be added is the result of all.
class Routes {
 public:
  Routes(http::Router& router, ApiState& state) : router_(router), state_(state) {}

  // `answer` is called with the request, on an I/O thread: it is short.
  using Answer = std::function<http::Response(const http::Request& request)>;
  void add(http::Route route, Answer answer) {
    if (!added_) return;
    route.handler = [answer = std::move(answer)](const ExchangePtr& exchange) {
      exchange->respond(answer(exchange->request()));
    };
    added_ = router_.add(std::move(route));
  }

  // A JSON answer that needs the model.
  void add_json(http::Route route, std::function<std::string(const Serving&)> answer) {
    add(std::move(route), [&state = state_, answer = std::move(answer)](const http::Request&) {
      return http::json_response(200, answer(*state.serving()));
    });
  }

  Result<void> result() { return std::move(added_); }

 private:
  http::Router& router_;
  ApiState& state_;
  Result<void> added_;
};

http::Response health_response(bool is_well, const Health& health) {
  http::Response response = http::json_response(is_well ? 200 : 503, to_json(health));
  response.headers.push_back({"cache-control", "no-store"});
  if (!is_well) response.headers.push_back({"retry-after", "1"});
  return response;
}

// Probes are answered on surplus connections too: load must not look like death.
void add_health_routes(Routes& routes, ApiState& state) {
  const auto ready = [&state](const http::Request&) {
    const Health health = state.health();
    return health_response(health.is_ready, health);
  };
  const auto live = [&state](const http::Request&) {
    const Health health = state.health();
    return health_response(health.is_live, health);
  };
  const auto probe = [](const char* pattern) {
    return http::Route{
        .method = "GET",
        .pattern = pattern,
        .handler = {},
        .is_public = true,
        .is_essential = true};
  };
  routes.add(probe("/health"), ready);
  routes.add(probe("/readyz"), ready);
  routes.add(probe("/livez"), live);
}

void add_model_routes(Routes& routes, ApiState& state) {
  routes.add_json({.method = "GET", .pattern = "/v1/models"}, [](const Serving& serving) {
    return model_list_json(served_model(serving));
  });
  const auto one = [&state](const http::Request& request) {
    const std::string_view name = request.path_value("model").value_or("");
    const auto model = model_json(served_model(*state.serving()), name);
    if (model) return http::json_response(200, *model);
    return to_response(to_api_error({
        .code = ErrorCode::kNotFound,
        .message = "there is no model of this name; /v1/models lists those there are",
        .where = "model",
        .reason = "model_not_found",
    }));
  };
  routes.add({.method = "GET", .pattern = "/v1/models/{model...}"}, one);
  for (const char* pattern : {"/model_info", "/get_model_info"}) {
    routes.add_json({.method = "GET", .pattern = pattern}, [](const Serving& serving) {
      return model_info_json(served_model(serving));
    });
  }
  for (const char* pattern : {"/server_info", "/get_server_info"}) {
    routes.add_json({.method = "GET", .pattern = pattern}, [&state](const Serving& serving) {
      const Engine& engine = *serving.model.engine;
      return server_info_json(
          served_model(serving), engine.limits(), engine.stats(), state.version()
      );
    });
  }
}

// Requests that come after the answer share nothing with those before; what is under way goes on.
void add_cache_routes(Routes& routes) {
  for (const auto& [method, pattern] :
       {std::pair("POST", "/reset_prefix_cache"),
        std::pair("POST", "/flush_cache"),
        std::pair("GET", "/flush_cache")}) {
    http::Route route{.method = method, .pattern = pattern};
    route.is_kept_from_foreign_pages = true;
    routes.add_json(std::move(route), [](const Serving& serving) {
      serving.model.engine->reset_prefix_cache();
      return std::string("{\"success\":true}");
    });
  }
}

// What tells of the server itself, to anyone.
void add_public_routes(Routes& routes, ApiState& state, CountersReader counters) {
  const auto open = [](std::string_view pattern) {
    return http::Route{
        .method = "GET", .pattern = std::string(pattern), .handler = {}, .is_public = true};
  };
  routes.add(open("/version"), [&state](const http::Request&) {
    return http::json_response(200, version_json(state.version()));
  });
  routes.add(open("/openapi.json"), [document = openapi_document(state.version())](const auto&) {
    return http::json_response(200, document);
  });
  routes.add(open("/metrics"), [&state, counters = std::move(counters)](const http::Request&) {
    return http::Response{
        .status = 200,
        .headers = {{"content-type", "text/plain; version=0.0.4; charset=utf-8"}},
        .body = state.metrics_text(counters()),
    };
  });
  for (const std::string_view path : page_paths()) {
    routes.add(open(path), [](const http::Request& request) {
      return *page_file(request.path(), request.header("if-none-match"));
    });
  }
}

}  // namespace

Result<void> add_info_routes(http::Router& router, ApiState& state, CountersReader counters) {
  Routes routes(router, state);
  add_health_routes(routes, state);
  add_model_routes(routes, state);
  add_cache_routes(routes);
  add_public_routes(routes, state, std::move(counters));
  return routes.result();
}

}  // namespace millrace
