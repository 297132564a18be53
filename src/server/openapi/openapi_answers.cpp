// The schemas of the OpenAPI document that say what answers hold (protocol/answer_writer.h).
#include "server/openapi/openapi_parts.h"

namespace millrace {

const std::string_view kOpenApiAnswers = R"json({
 "Error": {
  "type": "object",
  "required": ["error"],
  "properties": {
   "error": {
    "type": "object",
    "required": ["message", "type", "param", "code"],
    "properties": {
     "message": {"type": "string"},
     "type": {"type": "string"},
     "param": {"type": ["string", "null"], "description": "JSON path of what is wrong."},
     "code": {"type": ["string", "null"], "description": "A stable word."}
    }
   }
  }
 },
 "Usage": {
  "type": "object",
  "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
  "properties": {
   "prompt_tokens": {"type": "integer"},
   "completion_tokens": {"type": "integer"},
   "total_tokens": {"type": "integer"},
   "prompt_tokens_details": {
    "type": "object",
    "properties": {"cached_tokens": {"type": "integer"}}
   },
   "completion_tokens_details": {
    "type": "object",
    "properties": {"reasoning_tokens": {"type": "integer"}}
   }
  }
 },
 "Timings": {
  "type": "object",
  "description": "With return_timings. null: it never came to that.",
  "properties": {
   "queue_ms": {"type": ["number", "null"],
    "description": "Milliseconds to its first step."},
   "prefill_ms": {"type": ["number", "null"],
    "description": "From there to its first token."},
   "decode_ms": {"type": ["number", "null"],
    "description": "From the first token to the last."},
   "num_preemptions": {"type": "integer",
    "description": "How often it gave way to others, to be computed again."},
   "num_recomputed_tokens": {"type": "integer"},
   "cache_n": {"type": "integer", "description": "Prompt tokens found in the prefix cache."},
   "prompt_n": {"type": "integer", "description": "Prompt tokens that were computed."},
   "prompt_per_second": {"type": ["number", "null"]},
   "predicted_n": {"type": "integer"},
   "predicted_per_second": {"type": ["number", "null"]}
  }
 },
 "PromptLogprob": {
  "type": "object",
  "properties": {
   "logprob": {"type": "number"},
   "rank": {"type": ["integer", "null"], "description": "null: not among the most likely."},
   "decoded_token": {"type": "string"}
  }
 },
 "CompletionLogprobs": {
  "type": "object",
  "properties": {
   "tokens": {"type": "array", "items": {"type": "string"}},
   "token_logprobs": {"type": "array", "items": {"type": ["number", "null"]}},
   "top_logprobs": {
    "type": "array",
    "items": {"type": ["object", "null"], "additionalProperties": {"type": "number"}}
   },
   "text_offset": {"type": "array", "items": {"type": "integer"},
    "description": "In characters of the choice's text."}
  }
 },
 "CompletionChoice": {
  "type": "object",
  "required": ["index", "text", "finish_reason"],
  "properties": {
   "index": {"type": "integer"},
   "text": {"type": "string"},
   "logprobs": {
    "oneOf": [{"$ref": "#/components/schemas/CompletionLogprobs"}, {"type": "null"}]
   },
   "finish_reason": {"type": ["string", "null"], "enum": ["stop", "length", "abort", null]},
   "stop_reason": {"type": ["integer", "string", "null"],
    "description": "The stop token's id or the stop string; null: the model's own end."},
   "prompt_logprobs": {
    "type": "array",
    "items": {
     "oneOf": [
      {"type": "null"},
      {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/PromptLogprob"}}
     ]
    }
   },
   "prompt_token_ids": {"type": "array", "items": {"type": "integer"}},
   "token_ids": {"type": "array", "items": {"type": "integer"}},
   "timings": {"$ref": "#/components/schemas/Timings"}
  }
 },
 "Completion": {
  "type": "object",
  "description": "Also each event of a stream; its usage is null or left out but in the last.",
  "required": ["id", "object", "created", "model", "choices"],
  "properties": {
   "id": {"type": "string"},
   "object": {"const": "text_completion"},
   "created": {"type": "integer", "description": "Unix time."},
   "model": {"type": "string"},
   "system_fingerprint": {"type": ["string", "null"]},
   "choices": {"type": "array", "items": {"$ref": "#/components/schemas/CompletionChoice"}},
   "timings": {"$ref": "#/components/schemas/Timings"},
   "usage": {"oneOf": [{"$ref": "#/components/schemas/Usage"}, {"type": "null"}]}
  }
 },
 "TokenLogprob": {
  "type": "object",
  "required": ["token", "logprob", "bytes"],
  "properties": {
   "token": {"type": "string"},
   "logprob": {"type": "number"},
   "bytes": {"type": "array", "items": {"type": "integer"}}
  }
 },
 "ChatLogprobs": {
  "type": "object",
  "required": ["content", "refusal"],
  "properties": {
   "content": {
    "type": "array",
    "items": {
     "allOf": [{"$ref": "#/components/schemas/TokenLogprob"}],
     "properties": {
      "top_logprobs": {"type": "array", "items": {"$ref": "#/components/schemas/TokenLogprob"}}
     }
    }
   },
   "refusal": {"type": "null"}
  }
 },
 "ChatCompletion": {
  "type": "object",
  "required": ["id", "object", "created", "model", "choices", "usage"],
  "properties": {
   "id": {"type": "string"},
   "object": {"const": "chat.completion"},
   "created": {"type": "integer", "description": "Unix time."},
   "model": {"type": "string"},
   "system_fingerprint": {"type": ["string", "null"]},
   "choices": {
    "type": "array",
    "items": {
     "type": "object",
     "required": ["index", "message", "logprobs", "finish_reason"],
     "properties": {
      "index": {"type": "integer"},
      "message": {
       "type": "object",
       "properties": {
        "role": {"const": "assistant"},
        "content": {"type": "string"},
        "refusal": {"type": "null"}
       }
      },
      "logprobs": {"oneOf": [{"$ref": "#/components/schemas/ChatLogprobs"}, {"type": "null"}]},
      "finish_reason": {"type": ["string", "null"], "enum": ["stop", "length", "abort", null]},
      "stop_reason": {"type": ["integer", "string", "null"],
       "description": "The stop token's id or the stop string; null: the model's own end."},
      "token_ids": {"type": "array", "items": {"type": "integer"}},
      "timings": {"$ref": "#/components/schemas/Timings"}
     }
    }
   },
   "prompt_logprobs": {
    "type": "array",
    "items": {
     "oneOf": [
      {"type": "null"},
      {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/PromptLogprob"}}
     ]
    }
   },
   "prompt_token_ids": {"type": "array", "items": {"type": "integer"}},
   "timings": {"$ref": "#/components/schemas/Timings"},
   "usage": {"$ref": "#/components/schemas/Usage"}
  }
 },
 "ChatCompletionChunk": {
  "type": "object",
  "required": ["id", "object", "created", "model", "choices"],
  "properties": {
   "id": {"type": "string"},
   "object": {"const": "chat.completion.chunk"},
   "created": {"type": "integer", "description": "Unix time."},
   "model": {"type": "string"},
   "system_fingerprint": {"type": ["string", "null"]},
   "choices": {
    "type": "array",
    "items": {
     "type": "object",
     "required": ["index", "delta", "finish_reason"],
     "properties": {
      "index": {"type": "integer"},
      "delta": {
       "type": "object",
       "properties": {"role": {"const": "assistant"}, "content": {"type": "string"}}
      },
      "logprobs": {"oneOf": [{"$ref": "#/components/schemas/ChatLogprobs"}, {"type": "null"}]},
      "finish_reason": {"type": ["string", "null"], "enum": ["stop", "length", "abort", null]},
      "stop_reason": {"type": ["integer", "string", "null"],
       "description": "The stop token's id or the stop string; null: the model's own end."},
      "token_ids": {"type": "array", "items": {"type": "integer"}}
     }
    }
   },
   "prompt_token_ids": {"type": "array", "items": {"type": "integer"}},
   "timings": {"$ref": "#/components/schemas/Timings"},
   "usage": {"oneOf": [{"$ref": "#/components/schemas/Usage"}, {"type": "null"}]}
  }
 },
 "GenerateAnswer": {
  "type": "object",
  "required": ["text", "output_ids", "meta_info"],
  "properties": {
   "text": {"type": "string"},
   "output_ids": {"type": "array", "items": {"type": "integer"}},
   "index": {"type": "integer", "description": "In a stream of several choices."},
   "meta_info": {
    "type": "object",
    "required": ["id", "finish_reason", "prompt_tokens", "completion_tokens"],
    "properties": {
     "id": {"type": "string"},
     "finish_reason": {
      "type": ["object", "null"],
      "required": ["type"],
      "properties": {
       "type": {"enum": ["stop", "length", "abort"]},
       "matched": {"type": ["integer", "string", "null"]},
       "length": {"type": "integer"},
       "message": {"type": "string"}
      }
     },
     "prompt_tokens": {"type": "integer"},
     "completion_tokens": {"type": "integer"},
     "cached_tokens": {"type": "integer"},
     "e2e_latency": {"type": "number", "description": "Seconds."},
     "input_token_logprobs": {"$ref": "#/components/schemas/NativeLogprobs"},
     "output_token_logprobs": {"$ref": "#/components/schemas/NativeLogprobs"},
     "input_top_logprobs": {
      "type": "array",
      "items": {"oneOf": [{"$ref": "#/components/schemas/NativeLogprobs"}, {"type": "null"}]}
     },
     "output_top_logprobs": {
      "type": "array",
      "items": {"$ref": "#/components/schemas/NativeLogprobs"}
     },
     "timings": {"$ref": "#/components/schemas/Timings"}
    }
   }
  }
 },
 "NativeLogprobs": {
  "type": "array",
  "items": {
   "type": "array",
   "prefixItems": [
    {"type": ["number", "null"]},
    {"type": "integer"},
    {"type": ["string", "null"]}
   ]
  },
  "description": "Triples of logprob, token id and text."
 },
 "Model": {
  "type": "object",
  "required": ["id", "object", "created", "owned_by"],
  "properties": {
   "id": {"type": "string"},
   "object": {"const": "model"},
   "created": {"type": "integer"},
   "owned_by": {"type": "string"},
   "root": {"type": "string"},
   "parent": {"type": ["string", "null"]},
   "max_model_len": {"type": "integer"},
   "permission": {"type": "array", "items": {"type": "object"}}
  }
 },
 "ModelList": {
  "type": "object",
  "required": ["object", "data"],
  "properties": {
   "object": {"const": "list"},
   "data": {"type": "array", "items": {"$ref": "#/components/schemas/Model"}}
  }
 },
 "Tokens": {
  "type": "object",
  "required": ["count", "max_model_len", "tokens"],
  "properties": {
   "count": {"type": "integer"},
   "max_model_len": {"type": "integer"},
   "tokens": {"type": "array", "items": {"type": "integer"}},
   "token_strs": {"type": ["array", "null"], "items": {"type": "string"}}
  }
 },
 "Text": {
  "type": "object",
  "required": ["prompt"],
  "properties": {"prompt": {"type": "string"}}
 },
 "Version": {
  "type": "object",
  "required": ["version"],
  "properties": {"version": {"type": "string"}}
 },
 "ModelInfo": {
  "type": "object",
  "properties": {
   "model_path": {"type": "string"},
   "tokenizer_path": {"type": "string"},
   "served_model_name": {"type": "string"},
   "model_type": {"type": "string"},
   "is_generation": {"type": "boolean"},
   "max_model_len": {"type": "integer"}
  }
 },
 "ServerInfo": {
  "type": "object",
  "properties": {
   "status": {"type": "string"},
   "version": {"type": "string"},
   "model_path": {"type": "string"},
   "served_model_name": {"type": "string"},
   "context_length": {"type": "integer"},
   "max_running_requests": {"type": "integer"},
   "max_queued_requests": {"type": "integer"},
   "max_num_live_seqs": {"type": "integer"},
   "max_num_queued_reqs": {"type": ["integer", "null"]},
   "max_num_queued_tokens": {"type": ["integer", "null"]},
   "max_result_bytes": {"type": "integer"},
   "schedule_policy": {"enum": ["fcfs", "priority", "fair"]},
   "disable_radix_cache": {"type": "boolean", "description": "No prefix cache."},
   "max_total_num_tokens": {"type": "integer"},
   "internal_states": {
    "type": "array",
    "items": {
     "type": "object",
     "properties": {
      "last_gen_throughput": {"type": "number"},
      "num_running_reqs": {"type": "integer"},
      "num_queue_reqs": {"type": "integer"},
      "num_waiting_tokens": {"type": "integer"},
      "computed_tokens_per_second": {"type": "number"},
      "num_blocks_free": {"type": "integer"},
      "num_blocks_cached": {"type": "integer"},
      "num_preemptions": {"type": "integer"}
     }
    }
   }
  }
 }
})json";

}  // namespace millrace
