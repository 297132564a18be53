// The schemas of the OpenAPI document that say what a request may hold. The readers of requests
// (protocol/field_rules.h) refuse every other field by name.
#include "server/openapi/openapi_parts.h"

namespace millrace {

const std::string_view kOpenApiRequests = R"json({
 "StreamOptions": {
  "type": ["object", "null"],
  "additionalProperties": false,
  "properties": {
   "include_usage": {"type": ["boolean", "null"], "default": false,
    "description": "One more chunk, with the usage and no choices, before the end."},
   "continuous_usage_stats": {"type": ["boolean", "null"], "default": false,
    "description": "With include_usage: the usage so far in every chunk."},
   "include_obfuscation": {"const": false}
  }
 },
 "CommonFields": {
  "type": "object",
  "description": "Fields of completions and chats.",
  "properties": {
   "model": {"type": ["string", "null"],
    "description": "One of /v1/models; where left out, the model that is served."},
   "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2,
    "description": "0: always the most likely token. The model author's default, or 1."},
   "top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1,
    "description": "The most likely tokens that make up this share of the probability."},
   "top_k": {"type": ["integer", "null"], "minimum": -1,
    "description": "The so many most likely tokens; 0 or -1: all."},
   "min_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1,
    "description": "Tokens at least so likely as this share of the most likely one."},
   "presence_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2, "default": 0},
   "frequency_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2, "default": 0},
   "repetition_penalty": {"type": ["number", "null"], "exclusiveMinimum": 0,
    "description": "Above 1: less of what prompt and text hold already."},
   "logit_bias": {
    "type": ["object", "null"],
    "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
    "description": "From token id to what is added to its score."
   },
   "ignore_eos": {"type": ["boolean", "null"], "default": false,
    "description": "Goes on after the model's end of text."},
   "skip_special_tokens": {"type": ["boolean", "null"], "default": true,
    "description": "Special tokens are left out of the text."},
   "stop": {
    "oneOf": [
     {"type": ["string", "null"]},
     {"type": "array", "items": {"type": "string", "minLength": 1}}
    ],
    "description": "Text that ends a choice, and is no part of it."
   },
   "stop_token_ids": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0},
    "description": "Token ids that end a choice."},
   "n": {"type": ["integer", "null"], "minimum": 1, "maximum": 128, "default": 1,
    "description": "Choices for each prompt."},
   "seed": {"type": ["integer", "null"],
    "description": "The same seed and request give the same text."},
   "allowed_token_ids": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0},
    "description": "No other token is chosen."},
   "bad_words": {"type": ["array", "null"], "items": {"type": "string"},
    "description": "Words that are not written."},
   "include_stop_str_in_output": {"type": ["boolean", "null"], "default": false},
   "min_tokens": {"type": ["integer", "null"], "minimum": 0, "default": 0,
    "description": "No end of text before so many tokens, and no stop string that ends in them."},
   "prompt_logprobs": {"type": ["integer", "null"], "minimum": 0,
    "description": "Logprobs of the prompt, with so many of the most likely. Not in a stream."},
   "stream": {"type": ["boolean", "null"], "default": false,
    "description": "The answer comes as server-sent events, the last one `[DONE]`."},
   "stream_options": {"$ref": "#/components/schemas/StreamOptions"},
   "return_token_ids": {"type": ["boolean", "null"], "default": false,
    "description": "`prompt_token_ids` and `token_ids` beside the text."},
   "return_tokens_as_token_ids": {"type": ["boolean", "null"], "default": false,
    "description": "Logprobs name tokens `token_id:17`."},
   "return_timings": {"type": ["boolean", "null"], "default": false,
    "description": "`timings`: what the request waited for."},
   "add_special_tokens": {"type": ["boolean", "null"], "default": false,
    "description": "Whether the tokenizer adds the special tokens that begin a text."},
   "truncate_prompt_tokens": {"type": ["integer", "null"], "minimum": -1,
    "description": "Keeps the last so many tokens of the prompt; -1: as many as fit."},
   "request_id": {"type": ["string", "null"], "minLength": 1, "maxLength": 128,
    "description": "Becomes part of the answer's id."},
   "cache_salt": {"type": ["string", "null"], "minLength": 1, "maxLength": 1024,
    "description": "Prompts with another salt share no cached blocks."},
   "priority": {"type": ["integer", "null"], "default": 0,
    "description": "Lower first, where the server schedules by priority."},
   "timeout_s": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 86400,
    "description": "Seconds until the request is given up."},
   "response_format": {
    "type": ["object", "null"],
    "required": ["type"],
    "properties": {"type": {"const": "text"}},
    "description": "Plain text only."
   },
   "user": {"type": ["string", "null"], "maxLength": 512, "description": "Kept by nobody."},
   "metadata": {
    "type": ["object", "null"],
    "maxProperties": 16,
    "additionalProperties": {"type": "string", "maxLength": 512},
    "description": "Kept by nobody."
   },
   "service_tier": {"type": ["string", "null"], "enum": ["auto", "default", null],
    "description": "The one tier that there is."},
   "store": {"const": false, "description": "Nothing is stored."}
  }
 },
 "CompletionRequest": {
  "allOf": [{"$ref": "#/components/schemas/CommonFields"}],
  "required": ["prompt"],
  "unevaluatedProperties": false,
  "properties": {
   "prompt": {
    "oneOf": [
     {"type": "string"},
     {"type": "array", "items": {"type": "string"}, "minItems": 1},
     {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
     {
      "type": "array",
      "items": {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1},
      "minItems": 1
     }
    ],
    "description": "Text or token ids, or a list of either."
   },
   "max_tokens": {"type": ["integer", "null"], "minimum": 0, "default": 16,
    "description": "Tokens to generate at most; 0, with echo: none."},
   "echo": {"type": ["boolean", "null"], "default": false,
    "description": "The text begins with the prompt."},
   "logprobs": {"type": ["integer", "null"], "minimum": 0,
    "description": "The logprobs of so many of the most likely tokens, and of the chosen one."},
   "best_of": {"type": ["integer", "null"], "minimum": 0, "maximum": 20,
    "description": "n, if anything."}
  }
 },
 "ChatMessage": {
  "type": "object",
  "required": ["role"],
  "properties": {
   "role": {"type": "string", "examples": ["system", "user", "assistant", "tool"]},
   "content": {
    "oneOf": [
     {"type": ["string", "null"]},
     {"type": "array", "items": {"$ref": "#/components/schemas/TextPart"}}
    ]
   },
   "name": {"type": ["string", "null"]},
   "tool_calls": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/ToolCall"}},
   "tool_call_id": {"type": ["string", "null"]}
  }
 },
 "TextPart": {
  "type": "object",
  "required": ["type", "text"],
  "properties": {"type": {"const": "text"}, "text": {"type": "string"}}
 },
 "ToolCall": {
  "type": "object",
  "required": ["function"],
  "properties": {
   "id": {"type": "string"},
   "type": {"const": "function"},
   "function": {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string"}, "arguments": {"type": "string"}}
   }
  }
 },
 "Tool": {
  "type": "object",
  "required": ["type", "function"],
  "properties": {
   "type": {"const": "function"},
   "function": {
    "type": "object",
    "required": ["name"],
    "properties": {
     "name": {"type": "string"},
     "description": {"type": "string"},
     "parameters": {"type": "object"}
    }
   }
  }
 },
 "ChatCompletionRequest": {
  "allOf": [{"$ref": "#/components/schemas/CommonFields"}],
  "required": ["messages"],
  "unevaluatedProperties": false,
  "properties": {
   "messages": {
    "type": "array",
    "items": {"$ref": "#/components/schemas/ChatMessage"},
    "minItems": 1
   },
   "max_completion_tokens": {"type": ["integer", "null"], "minimum": 1,
    "description": "Tokens to generate at most; where left out, as many as fit."},
   "max_tokens": {"type": ["integer", "null"], "minimum": 1,
    "description": "The former name of max_completion_tokens."},
   "logprobs": {"type": ["boolean", "null"], "default": false,
    "description": "The logprob of each token."},
   "top_logprobs": {"type": ["integer", "null"], "minimum": 0, "maximum": 20,
    "description": "With logprobs: of so many of the most likely tokens too."},
   "tools": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/Tool"},
    "description": "For a template that reads them; calls are not parsed out of the text."},
   "tool_choice": {"description": "`auto` or `none`."},
   "parallel_tool_calls": {"type": ["boolean", "null"], "default": true,
    "description": "With tools it can only be true."},
   "documents": {"type": ["array", "null"], "items": {"type": "object"},
    "description": "For the model's template; refused if that does not read it."},
   "chat_template_kwargs": {"type": ["object", "null"],
    "description": "Variables that the model's template reads, such as enable_thinking."},
   "reasoning_effort": {"type": ["string", "null"],
    "description": "For the model's template; refused if that does not read it."},
   "add_generation_prompt": {"type": ["boolean", "null"], "default": true,
    "description": "Begins the assistant's turn."},
   "continue_final_message": {"type": ["boolean", "null"], "default": false,
    "description": "Goes on with the last message instead of a new turn."}
  }
 },
 "NativeSamplingParams": {
  "type": "object",
  "additionalProperties": false,
  "properties": {
   "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 2,
    "description": "0: always the most likely token. The model author's default, or 1."},
   "top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1,
    "description": "The most likely tokens that make up this share of the probability."},
   "top_k": {"type": ["integer", "null"], "minimum": -1,
    "description": "The so many most likely tokens; 0 or -1: all."},
   "min_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1,
    "description": "Tokens at least so likely as this share of the most likely one."},
   "presence_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2, "default": 0},
   "frequency_penalty": {"type": ["number", "null"], "minimum": -2, "maximum": 2, "default": 0},
   "repetition_penalty": {"type": ["number", "null"], "exclusiveMinimum": 0,
    "description": "Above 1: less of what prompt and text hold already."},
   "logit_bias": {
    "type": ["object", "null"],
    "additionalProperties": {"type": "number", "minimum": -100, "maximum": 100},
    "description": "From token id to what is added to its score."
   },
   "ignore_eos": {"type": ["boolean", "null"], "default": false,
    "description": "Goes on after the model's end of text."},
   "skip_special_tokens": {"type": ["boolean", "null"], "default": true,
    "description": "Special tokens are left out of the text."},
   "stop": {
    "oneOf": [
     {"type": ["string", "null"]},
     {"type": "array", "items": {"type": "string", "minLength": 1}}
    ],
    "description": "Text that ends a choice, and is no part of it."
   },
   "stop_token_ids": {"type": ["array", "null"], "items": {"type": "integer", "minimum": 0},
    "description": "Token ids that end a choice."},
   "n": {"type": ["integer", "null"], "minimum": 1, "maximum": 128, "default": 1,
    "description": "Choices for each prompt."},
   "max_new_tokens": {"type": ["integer", "null"], "minimum": 1, "default": 128,
    "description": "null: as many as fit."},
   "min_new_tokens": {"type": ["integer", "null"], "minimum": 0, "default": 0},
   "no_stop_trim": {"type": ["boolean", "null"], "default": false,
    "description": "The stop string stays in the text."},
   "sampling_seed": {"type": ["integer", "null"]}
  }
 },
 "GenerateRequest": {
  "type": "object",
  "additionalProperties": false,
  "properties": {
   "text": {
    "oneOf": [{"type": ["string", "null"]}, {"type": "array", "items": {"type": "string"}}],
    "description": "A prompt, or a list of them."
   },
   "input_ids": {
    "oneOf": [
     {"type": "array", "items": {"type": "integer", "minimum": 0}},
     {"type": "array", "items": {"type": "array", "items": {"type": "integer", "minimum": 0}}},
     {"type": "null"}
    ],
    "description": "In place of text."
   },
   "sampling_params": {
    "oneOf": [
     {"$ref": "#/components/schemas/NativeSamplingParams"},
     {"type": "null"},
     {"type": "array", "items": {"$ref": "#/components/schemas/NativeSamplingParams"}}
    ]
   },
   "stream": {"type": ["boolean", "null"], "default": false,
    "description": "Each event carries the whole text so far."},
   "return_logprob": {"type": ["boolean", "array", "null"], "default": false},
   "top_logprobs_num": {"type": ["integer", "array", "null"], "default": 0},
   "logprob_start_len": {"type": ["integer", "array", "null"], "default": -1,
    "description": "0: the prompt's logprobs too."},
   "return_text_in_logprobs": {"type": ["boolean", "null"], "default": false},
   "rid": {"type": ["string", "array", "null"],
    "description": "The id of the request, for /abort_request."},
   "model": {"type": ["string", "null"]},
   "cache_salt": {"type": ["string", "null"], "maxLength": 1024},
   "priority": {"type": ["integer", "null"], "default": 0},
   "timeout_s": {"type": ["number", "null"], "exclusiveMinimum": 0, "maximum": 86400},
   "return_timings": {"type": ["boolean", "null"], "default": false}
  }
 },
 "TokenizeRequest": {
  "type": "object",
  "description": "With a prompt or with messages.",
  "properties": {
   "model": {"type": ["string", "null"]},
   "prompt": {"type": "string"},
   "messages": {
    "type": "array",
    "items": {"$ref": "#/components/schemas/ChatMessage"},
    "minItems": 1
   },
   "add_special_tokens": {"type": ["boolean", "null"],
    "description": "True for a prompt, false for messages, where left out."},
   "return_token_strs": {"type": ["boolean", "null"], "default": false,
    "description": "The tokens as the vocabulary writes them."},
   "add_generation_prompt": {"type": ["boolean", "null"], "default": true},
   "continue_final_message": {"type": ["boolean", "null"], "default": false},
   "chat_template_kwargs": {"type": ["object", "null"]},
   "tools": {"type": ["array", "null"], "items": {"$ref": "#/components/schemas/Tool"}}
  }
 },
 "DetokenizeRequest": {
  "type": "object",
  "required": ["tokens"],
  "properties": {
   "model": {"type": ["string", "null"]},
   "tokens": {"type": "array", "items": {"type": "integer", "minimum": 0}}
  }
 },
 "AbortRequest": {
  "type": "object",
  "properties": {
   "rid": {"type": ["string", "null"],
    "description": "The id of the request, or the start of it."},
   "abort_all": {"type": ["boolean", "null"], "default": false}
  }
 }
})json";

}  // namespace millrace
