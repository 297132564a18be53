#include "server/protocol/chat_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/prompt.h"
#include "server/protocol/request_cases.h"

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr Endpoint kH = Endpoint::kChat;

void expect_all(const std::vector<RequestCase>& cases) {
  for (const RequestCase& c : cases) EXPECT_EQ(fault_of(c), "");
}

// A body with these messages.
std::string chat(std::string_view messages) {
  return fmt::format(R"({{"messages": {}}})", messages);
}

// A body with a question and then this message.
std::string then(std::string_view message) {
  return chat(fmt::format(R"([{{"role": "user", "content": "Hi"}}, {}])", message));
}

// A good message and these fields.
std::string with(std::string_view fields) {
  return fmt::format(R"({{"messages": [{{"role": "user", "content": "Hi"}}], {}}})", fields);
}

std::string tool(std::string_view function) {
  return with(fmt::format(R"("tools": [{{"type": "function", "function": {}}}])", function));
}

GenerationRequest read(std::string_view body) {
  Result<GenerationRequest> request = read_chat_request(body, small_context());
  CHECK(request.ok(), request.error().message);
  return *std::move(request);
}

std::string rendered(std::string_view body) {
  const GenerationRequest request = read(body);
  const Result<RenderedChat> text =
      render_chat(small_context().text, std::get<ChatInput>(request.prompts.front()));
  CHECK(text.ok(), text.error().message);
  return text->text;
}

TEST(ChatRequest, MessagesAreAListOfObjectsWithRoles) {
  std::string many = "[";
  for (int i = 0; i < 100'000; ++i) many += R"({"role":"user","content":"x"},)";
  many.back() = ']';
  expect_all({
      {"E1", kH, "{}", 400, "missing_required_parameter", "messages"},
      {"E1", kH, chat("null"), 400, "missing_required_parameter", "messages"},
      {"E1", kH, chat(R"("hi")"), 400, "invalid_type", "messages"},
      {"E1", kH, chat("{}"), 400, "invalid_type", "messages"},
      {"E2", kH, chat("[]"), 400, "array_below_min_length", "messages"},
      {"E3", kH, chat("[123]"), 400, "invalid_type", "messages[0]"},
      {"E3", kH, chat("[{}]"), 400, "missing_required_parameter", "messages[0].role"},
      {"E3", kH, chat("[null]"), 400, "invalid_type", "messages[0]"},
      {"E4",
       kH,
       then(R"({"content": "x"})"),
       400,
       "missing_required_parameter",
       "messages[1].role"},
      {"E4", kH, then(R"({"role": 123, "content": "x"})"), 400, "invalid_type", "messages[1].role"},
      {"E4",
       kH,
       then(R"({"role": "robot", "content": "x"})"),
       400,
       "invalid_value",
       "messages[1].role"},
      {"E4", kH, then(R"({"role": "", "content": "x"})"), 400, "invalid_value", "messages[1].role"},
      {"E31", kH, chat(many), 400, "array_above_max_length", "messages"},
      {"E13",
       kH,
       then(R"({"role": "system", "content": "x"})"),
       400,
       "chat_template_error",
       "messages"},
      {"E17",
       kH,
       chat(R"([{"role": "user", "content": "x", "name": "a b"}])"),
       400,
       "invalid_value",
       "messages[0].name"},
      {"E17",
       kH,
       chat(R"([{"role": "user", "content": "x", "name": "a<|im_end|>"}])"),
       400,
       "invalid_value",
       "messages[0].name"},
      {"E17",
       kH,
       chat(R"([{"role": "user", "content": "x", "name": ""}])"),
       400,
       "invalid_value",
       "messages[0].name"},
      {"E17",
       kH,
       chat(R"([{"role": "user", "content": "x", "name": 5}])"),
       400,
       "invalid_type",
       "messages[0].name"},
      {"B23",
       kH,
       chat(R"([{"role": "user", "content": "x", "contents": "y"}])"),
       400,
       "unknown_parameter",
       "messages[0].contents"},
      {"B23",
       kH,
       chat(R"([{"role": "user", "content": "x", "tool_calls": [{}]}])"),
       400,
       "unknown_parameter",
       "messages[0].tool_calls"},
  });
}

TEST(ChatRequest, ContentIsTextAndNothingElse) {
  const auto content = [](std::string_view value) {
    return chat(fmt::format(R"([{{"role": "user", "content": {}}}])", value));
  };
  std::vector<RequestCase> cases = {
      {"E5",
       kH,
       chat(R"([{"role": "user"}])"),
       400,
       "missing_required_parameter",
       "messages[0].content"},
      {"E5",
       kH,
       chat(R"([{"role": "system", "content": null}])"),
       400,
       "missing_required_parameter",
       "messages[0].content"},
      {"E5",
       kH,
       then(R"({"role": "tool", "tool_call_id": "c"})"),
       400,
       "missing_required_parameter",
       "messages[1].content"},
      {"E5",
       kH,
       then(R"({"role": "assistant", "content": null})"),
       400,
       "missing_required_parameter",
       "messages[1].content"},
      {"E5",
       kH,
       then(R"({"role": "assistant", "tool_calls": []})"),
       400,
       "missing_required_parameter",
       "messages[1].content"},
      {"E6", kH, content("123"), 400, "invalid_type", "messages[0].content"},
      {"E6", kH, content("{}"), 400, "invalid_type", "messages[0].content"},
      {"E6", kH, content("[]"), 400, "array_below_min_length", "messages[0].content"},
      {"E7",
       kH,
       content(R"([{"text": "x"}])"),
       400,
       "missing_required_parameter",
       "messages[0].content[0].type"},
      {"E7",
       kH,
       content(R"([{"type": "text", "text": "x"}, {"type": "smell"}])"),
       400,
       "invalid_value",
       "messages[0].content[1].type"},
      {"E7", kH, content(R"([{"type": 5}])"), 400, "invalid_type", "messages[0].content[0].type"},
      {"E7", kH, content(R"(["x"])"), 400, "invalid_type", "messages[0].content[0]"},
      {"E8",
       kH,
       content(R"([{"type": "text"}])"),
       400,
       "missing_required_parameter",
       "messages[0].content[0].text"},
      {"E8",
       kH,
       content(R"([{"type": "text", "text": 5}])"),
       400,
       "invalid_type",
       "messages[0].content[0].text"},
      {"E8",
       kH,
       content(R"([{"type": "text", "text": "x", "bold": true}])"),
       400,
       "unknown_parameter",
       "messages[0].content[0].bold"},
      {"E8",
       kH,
       content(R"([{"type": "refusal", "refusal": "no"}])"),
       400,
       "invalid_value",
       "messages[0].content[0].type"},
  };
  for (const std::string_view media : {"image_url", "input_audio", "video_url", "file"}) {
    cases.push_back(
        {"E9",
         kH,
         content(fmt::format(R"([{{"type": "{}", "{}": {{}}}}])", media, media)),
         400,
         "unsupported_parameter",
         "messages[0].content[0].type"}
    );
  }
  // Nothing is ever fetched: an address is refused for its kind, wherever it points.
  for (const std::string_view url :
       {"http://127.0.0.1/",
        "http://169.254.169.254/",
        "file:///etc/passwd",
        "gopher://x",
        "http:\\\\\\\\host",
        "http://user@[::1]/",
        "data:image/png;base64,!!!!"}) {
    cases.push_back(
        {"E10",
         kH,
         content(fmt::format(R"([{{"type": "image_url", "image_url": {{"url": "{}"}}}}])", url)),
         400,
         "unsupported_parameter",
         "messages[0].content[0].type"}
    );
  }
  expect_all(cases);
}

TEST(ChatRequest, ToolCallsAndTheirAnswers) {
  const auto call = [](std::string_view function) {
    return then(fmt::format(
        R"({{"role": "assistant", "tool_calls": [{{"id": "c", "type": "function", "function": {}}}]}})",
        function
    ));
  };
  constexpr std::string_view kWhere = "messages[1].tool_calls[0].function.arguments";
  expect_all({
      {"E14",
       kH,
       then(R"({"role": "tool", "content": "x"})"),
       400,
       "missing_required_parameter",
       "messages[1].tool_call_id"},
      {"E14",
       kH,
       then(R"({"role": "tool", "content": "x", "tool_call_id": 5})"),
       400,
       "invalid_type",
       "messages[1].tool_call_id"},
      {"E15", kH, then(R"({"role": "tool", "content": "x", "tool_call_id": "never"})")},
      {"E16",
       kH,
       then(R"({"role": "assistant", "tool_calls": {}})"),
       400,
       "invalid_type",
       "messages[1].tool_calls"},
      {"E16",
       kH,
       then(R"({"role": "assistant", "tool_calls": [5]})"),
       400,
       "invalid_type",
       "messages[1].tool_calls[0]"},
      {"E16",
       kH,
       then(R"({"role": "assistant", "tool_calls": [{"id": "c"}]})"),
       400,
       "missing_required_parameter",
       "messages[1].tool_calls[0].function"},
      {"E16",
       kH,
       then(R"({"role": "assistant", "tool_calls": [{"function": {}}]})"),
       400,
       "missing_required_parameter",
       "messages[1].tool_calls[0].id"},
      {"E16",
       kH,
       call(R"({"arguments": "{}"})"),
       400,
       "missing_required_parameter",
       "messages[1].tool_calls[0].function.name"},
      {"E16", kH, call(R"({"name": "f"})"), 400, "missing_required_parameter", kWhere},
      {"E16", kH, call(R"({"name": "f", "arguments": {}})"), 400, "invalid_type", kWhere},
      {"E16", kH, call(R"({"name": "f", "arguments": "{"})"), 400, "invalid_value", kWhere},
      {"E16", kH, call(R"({"name": "f", "arguments": "5"})"), 400, "invalid_value", kWhere},
      {"E16",
       kH,
       call(R"({"name": "f", "arguments": ")" + std::string(300, '[') + "\"}"),
       400,
       "invalid_value",
       kWhere},
      {"E16", kH, call(R"({"name": "f", "arguments": "{}"})")},
      {"E16", kH, call(R"({"name": "f", "arguments": ""})")},
      {"E16",
       kH,
       then(R"({"role": "assistant", "content": "x", "function_call": {"name": "f"}})"),
       400,
       "unsupported_parameter",
       "messages[1].function_call"},
  });
}

TEST(ChatRequest, ToolsAndTheirChoice) {
  constexpr std::string_view kName = "tools[0].function.name";
  const std::string good = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  std::string deep = "{}";
  for (int i = 0; i < 10'000; ++i) deep = R"({"a":)" + deep + "}";
  std::string many = R"("tools": [)";
  for (int i = 0; i < 2000; ++i) many += fmt::format(R"({{"function": {{"name": "f{}"}}}},)", i);
  many.back() = ']';
  expect_all({
      {"E18", kH, with(R"("tools": {})"), 400, "invalid_type", "tools"},
      {"E18", kH, with(R"("tools": [])")},
      {"E18",
       kH,
       with(R"("tools": [], "tool_choice": "required")"),
       400,
       "invalid_value",
       "tool_choice"},
      {"E18", kH, with(many), 400, "array_above_max_length", "tools"},
      {"E18", kH, with(R"("tools": [5])"), 400, "invalid_type", "tools[0]"},
      {"E19",
       kH,
       with(R"("tools": [{"type": "retrieval", "function": {"name": "f"}}])"),
       400,
       "unsupported_parameter",
       "tools[0].type"},
      {"E19",
       kH,
       with(R"("tools": [{"type": "function"}])"),
       400,
       "missing_required_parameter",
       "tools[0].function"},
      {"E20", kH, tool("{}"), 400, "missing_required_parameter", kName},
      {"E20", kH, tool(R"({"name": "get weather"})"), 400, "invalid_value", kName},
      {"E20", kH, tool(R"({"name": ""})"), 400, "invalid_value", kName},
      {"E20",
       kH,
       tool(R"({"name": ")" + std::string(65, 'f') + "\"}"),
       400,
       "invalid_value",
       kName},
      {"E21",
       kH,
       with(R"("tools": [{"function": {"name": "f"}}, {"function": {"name": "f"}}])"),
       400,
       "invalid_value",
       "tools[1].function.name"},
      {"E22",
       kH,
       tool(R"({"name": "f", "parameters": []})"),
       400,
       "invalid_type",
       "tools[0].function.parameters"},
      {"E22", kH, tool(R"({"name": "f", "parameters": )" + deep + "}"), 400, "invalid_json", ""},
      {"E22", kH, tool(R"({"name": "f", "parameters": {"$ref": "http://10.0.0.1/s"}})")},
      {"E23", kH, tool(R"({"name": "f", "parameters": {"pattern": "(*", "type": "no"}})")},
      {"E23",
       kH,
       tool(R"({"name": "f", "strict": true})"),
       400,
       "unsupported_parameter",
       "tools[0].function.strict"},
      {"E23",
       kH,
       tool(R"({"name": "f", "description": 5})"),
       400,
       "invalid_type",
       "tools[0].function.description"},
      {"E23",
       kH,
       tool(R"({"name": "f", "args": {}})"),
       400,
       "unknown_parameter",
       "tools[0].function.args"},
      {"E24",
       kH,
       with(good + R"(, "tool_choice": "perhaps")"),
       400,
       "invalid_value",
       "tool_choice"},
      {"E24", kH, with(R"("tool_choice": "auto")"), 400, "invalid_value", "tool_choice"},
      {"E24", kH, with(R"("tool_choice": "none")")},
      {"E24", kH, with(good + R"(, "tool_choice": "auto")")},
      {"E24",
       kH,
       with(good + R"(, "tool_choice": "required")"),
       400,
       "unsupported_parameter",
       "tool_choice"},
      {"E24",
       kH,
       with(good + R"(, "tool_choice": {"type": "function", "function": {"name": "g"}})"),
       400,
       "invalid_value",
       "tool_choice.function.name"},
      {"E24",
       kH,
       with(good + R"(, "tool_choice": {"type": "function", "function": {"name": "f"}})"),
       400,
       "unsupported_parameter",
       "tool_choice"},
      {"E24",
       kH,
       with(good + R"(, "tool_choice": {"type": "function"})"),
       400,
       "missing_required_parameter",
       "tool_choice.function"},
      {"E24", kH, with(good + R"(, "tool_choice": 5)"), 400, "invalid_type", "tool_choice"},
      {"E25",
       kH,
       with(R"("parallel_tool_calls": "yes")"),
       400,
       "invalid_type",
       "parallel_tool_calls"},
      {"E25",
       kH,
       with(good + R"(, "parallel_tool_calls": false)"),
       400,
       "unsupported_parameter",
       "parallel_tool_calls"},
      {"E25", kH, with(good + R"(, "parallel_tool_calls": true)")},
      {"E25", kH, with(good + R"(, "parallel_tool_calls": false, "tool_choice": "none")")},
      {"E25", kH, with(R"("parallel_tool_calls": false)")},
      {"E26",
       kH,
       with(good + R"(, "functions": [{"name": "f"}])"),
       400,
       "unsupported_parameter",
       "functions"},
      {"E26",
       kH,
       with(R"("function_call": {"name": "f"})"),
       400,
       "unsupported_parameter",
       "function_call"},
  });
}

TEST(ChatRequest, TemplatesAndWhatOpenAiHasBesides) {
  expect_all({
      {"E12",
       kH,
       with(R"("add_generation_prompt": true, "continue_final_message": true)"),
       400,
       "invalid_value",
       "continue_final_message"},
      {"E12",
       kH,
       with(R"("continue_final_message": 1)"),
       400,
       "invalid_type",
       "continue_final_message"},
      {"E27",
       kH,
       with(R"("chat_template": "{% for i in range(10**9) %}{% endfor %}")"),
       400,
       "unsupported_parameter",
       "chat_template"},
      {"E28",
       kH,
       with(R"("chat_template_kwargs": [])"),
       400,
       "invalid_type",
       "chat_template_kwargs"},
      {"E28",
       kH,
       with(R"("chat_template_kwargs": {"tokenize": true})"),
       400,
       "invalid_value",
       "chat_template_kwargs.tokenize"},
      {"E28",
       kH,
       with(R"("chat_template_kwargs": {"messages": []})"),
       400,
       "invalid_value",
       "chat_template_kwargs.messages"},
      {"E28",
       kH,
       with(R"("chat_template_kwargs": {"tools": []})"),
       400,
       "invalid_value",
       "chat_template_kwargs.tools"},
      {"E28",
       kH,
       with(R"("chat_template_kwargs": {"add_generation_prompt": true})"),
       400,
       "invalid_value",
       "chat_template_kwargs.add_generation_prompt"},
      {"E28",
       kH,
       with(R"("chat_template_kwargs": {"enable_thinking": false, "thinking": true})"),
       400,
       "unsupported_parameter",
       "chat_template_kwargs.thinking"},
      {"E28", kH, with(R"("chat_template_kwargs": {"enable_thinking": false})")},
      {"E29",
       kH,
       with(R"("reasoning_effort": "hardest")"),
       400,
       "invalid_value",
       "reasoning_effort"},
      {"E29", kH, with(R"("reasoning_effort": 3)"), 400, "invalid_type", "reasoning_effort"},
      {"E29", kH, with(R"("reasoning_effort": "low")")},
      {"E33", kH, with(R"("audio": {"voice": "x"})"), 400, "unsupported_parameter", "audio"},
      {"E33",
       kH,
       with(R"("modalities": ["text", "audio"])"),
       400,
       "unsupported_parameter",
       "modalities"},
      {"E33", kH, with(R"("modalities": ["text"])")},
      {"E33",
       kH,
       with(R"("prediction": {"type": "content"})"),
       400,
       "unsupported_parameter",
       "prediction"},
      {"E33", kH, with(R"("store": true)"), 400, "unsupported_parameter", "store"},
      {"E33",
       kH,
       with(R"("web_search_options": {})"),
       400,
       "unsupported_parameter",
       "web_search_options"},
      {"E33", kH, with(R"("service_tier": "flex")"), 400, "unsupported_parameter", "service_tier"},
      {"E33", kH, with(R"("service_tier": "gold")"), 400, "invalid_value", "service_tier"},
      {"E33", kH, with(R"("service_tier": "default")")},
      {"E33", kH, with(R"("verbosity": "high")"), 400, "unsupported_parameter", "verbosity"},
      {"E33", kH, with(R"("echo": true)"), 400, "unsupported_parameter", "echo"},
      {"E33", kH, with(R"("best_of": 1)"), 400, "unknown_parameter", "best_of"},
      {"E33", kH, with(R"("documents": ["x"])"), 400, "invalid_type", "documents[0]"},
      {"C21",
       kH,
       with(R"("max_tokens": 5, "max_completion_tokens": 6)"),
       400,
       "invalid_value",
       "max_tokens"},
      {"C21", kH, with(R"("max_tokens": 5, "max_completion_tokens": 5)")},
      {"C19",
       kH,
       with(R"("max_completion_tokens": 0)"),
       400,
       "integer_below_min_value",
       "max_completion_tokens"},
      {"C27", kH, with(R"("logprobs": 5)"), 400, "invalid_type", "logprobs"},
      {"C28", kH, with(R"("top_logprobs": 2)"), 400, "invalid_value", "top_logprobs"},
      {"C28",
       kH,
       with(R"("top_logprobs": 2, "logprobs": false)"),
       400,
       "invalid_value",
       "top_logprobs"},
      {"C29",
       kH,
       with(R"("top_logprobs": 21, "logprobs": true)"),
       400,
       "integer_above_max_value",
       "top_logprobs"},
      {"C29",
       kH,
       with(R"("top_logprobs": -1, "logprobs": true)"),
       400,
       "integer_below_min_value",
       "top_logprobs"},
  });
}

TEST(ChatRequest, HasOpenAisDefaults) {
  const GenerationRequest request = read(with(R"("top_logprobs": 0)"));
  EXPECT_EQ(request.api, Api::kChat);
  EXPECT_FALSE(request.max_tokens);
  EXPECT_FALSE(request.fields.sampling.logprobs);
  EXPECT_FALSE(request.add_special_tokens);
  EXPECT_EQ(request.fields.sampling.max_tokens, 256);  // all that could ever fit
  const ChatInput& input = std::get<ChatInput>(request.prompts.at(0));
  EXPECT_TRUE(input.add_generation_prompt);
  EXPECT_FALSE(input.tools || input.documents);
}

TEST(ChatRequest, CountsLogprobsWhereTheyAreSwitchedOn) {
  EXPECT_EQ(read(with(R"("logprobs": true)")).fields.sampling.logprobs, 0);
  EXPECT_EQ(read(with(R"("logprobs": true, "top_logprobs": 5)")).fields.sampling.logprobs, 5);
  EXPECT_EQ(read(with(R"("max_completion_tokens": 5)")).max_tokens, 5);
}

TEST(ChatRequest, TheAuthorsLengthIsTheDefault) {
  SmallServer server;
  server.defaults.max_new_tokens = 33;
  const Result<GenerationRequest> request = read_chat_request(with(R"("n": 1)"), server.context);
  EXPECT_FALSE(request->max_tokens);
  EXPECT_EQ(request->max_tokens_default, 33);
  EXPECT_EQ(read_chat_request(with(R"("max_tokens": 44)"), server.context)->max_tokens, 44);
}

TEST(ChatRequest, TemplatesSeeContentsAsOneString) {
  EXPECT_EQ(
      rendered(chat(R"([
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
         "name": "ann"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}], "refusal": null},
        {"role": "assistant", "content": null, "refusal": "never", "annotations": [], "audio": null}
      ])")),
      "[system]Be brief.[end][user]a\nb[end][assistant]no[end][assistant]never[end][assistant]"
  );
}

TEST(ChatRequest, TemplatesSeeArgumentsAsObjects) {
  EXPECT_EQ(
      rendered(then(R"({"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "index": 0,
         "function": {"name": "f", "arguments": "{\"x\": [1, \"y\"]}"}}]})")),
      R"([user]Hi[end][assistant][{"id": "c1", "type": "function", )"
      R"("function": {"name": "f", "arguments": {"x": [1, "y"]}}}][end][assistant])"
  );
}

TEST(ChatRequest, TemplatesSeeToolsThatMayBeUsed) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  EXPECT_THAT(rendered(with(tools)), HasSubstr(R"("name": "f")"));
  EXPECT_EQ(rendered(with(tools + R"(, "tool_choice": "none")")), "[user]Hi[end][assistant]");
}

TEST(ChatRequest, ReasoningEffortIsTheTemplatesToActOn) {
  const std::string effort = R"("reasoning_effort": "none")";
  EXPECT_EQ(rendered(with(R"("reasoning_effort": "low")")), "[user]Hi[end][assistant]");
  EXPECT_EQ(rendered(with(effort)), "[user]Hi[end][plain][assistant]");
  EXPECT_EQ(
      rendered(with(effort + R"(, "chat_template_kwargs": {"enable_thinking": true})")),
      "[user]Hi[end][assistant]"
  );
}

// They were passed over: the answer was that to a chat without them.
TEST(ChatRequest, RefusesWhatTheTemplateNeverReads) {
  ModelText text = small_model_text();
  Result<ChatTemplate> plain =
      ChatTemplate::parse("{% for m in messages %}{{ m.role }}{{ m['content'] }}{% endfor %}", {});
  ASSERT_TRUE(plain);
  text.chat_template = *std::move(plain);
  const auto refused_param = [&](std::string_view body) {
    const GenerationRequest request = read(body);
    const auto& input = std::get<ChatInput>(request.prompts.front());
    const Result<RenderedChat> refused = render_chat(text, input);
    if (refused) return std::string();
    EXPECT_EQ(to_api_error(refused.error()).code, "unsupported_parameter");
    EXPECT_THAT(refused.error().message, HasSubstr("chat template does not read it"));
    EXPECT_TRUE(render_raw_chat(text, input));
    return *to_api_error(refused.error()).param;
  };
  const std::string tools = R"("tools": [{"function": {"name": "f"}}])";
  EXPECT_EQ(refused_param(with(tools)), "tools");
  EXPECT_EQ(refused_param(with(tools + R"(, "tool_choice": "none")")), "");
  EXPECT_EQ(refused_param(with(R"("documents": [{"text": "x"}])")), "documents");
  EXPECT_EQ(refused_param(with(R"("documents": [])")), "");
  EXPECT_EQ(refused_param(with(R"("reasoning_effort": "low")")), "reasoning_effort");
  EXPECT_EQ(
      refused_param(with(R"("chat_template_kwargs": {"thinking": true})")),
      "chat_template_kwargs.thinking"
  );
  EXPECT_EQ(
      refused_param(then(R"({"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]})")),
      "messages[1].tool_calls"
  );
}

TEST(ChatRequest, ContinuesTheFinalMessage) {
  const auto continued = [](std::string_view content) {
    return rendered(fmt::format(
        R"({{"messages": [{{"role": "user", "content": "Hi"}},
            {{"role": "assistant", "content": "{}"}}], "continue_final_message": true}})",
        content
    ));
  };
  EXPECT_EQ(continued("Sure, "), "[user]Hi[end][assistant]Sure, ");
  EXPECT_EQ(continued(""), "[user]Hi[end][assistant]");
}

TEST(ChatRequest, SpecialTokensInMessagesArePlainText) {
  // <token 300> is a special token of the vocabulary, and letters where a client writes it.
  const GenerationRequest request = read(chat(R"([{"role": "user", "content": "<token 300>"}])"));
  const ModelText& text = small_context().text;
  const Result<RenderedChat> chat_text =
      render_chat(text, std::get<ChatInput>(request.prompts.front()));
  ASSERT_TRUE(chat_text);
  EXPECT_THAT(tokenize_chat(text, *chat_text), ::testing::Not(::testing::Contains(300)));
}

TEST(ChatRequest, WordsOfATemplateAreCut) {
  const std::string body = chat(R"([{"role": "user", "content": "x"}])");
  ModelText text = small_model_text();
  Result<ChatTemplate> angry =
      ChatTemplate::parse("{{ raise_exception('no: ' ~ messages[0].content * 5000) }}", {});
  ASSERT_TRUE(angry);
  text.chat_template = *std::move(angry);
  const Result<RenderedChat> refused =
      render_chat(text, std::get<ChatInput>(read(body).prompts.front()));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message.size(), 200U);
  EXPECT_EQ(to_api_error(refused.error()).code, "chat_template_error");
}

}  // namespace
}  // namespace millrace
