// The endpoints of the OpenAPI document: all of it but its schemas.
#include "server/openapi/openapi_parts.h"

namespace millrace {

const std::string_view kOpenApiEndpoints = R"json({
 "openapi": "3.1.0",
 "info": {
  "title": "millrace",
  "version": "",
  "summary": "Serves a large language model: OpenAI's API, vLLM's additions, SGLang's /generate."
 },
 "security": [{}, {"bearer": []}],
 "paths": {
  "/v1/completions": {
   "post": {
    "operationId": "createCompletion",
    "tags": ["generation"],
    "summary": "Goes on with a text.",
    "requestBody": {
     "required": true,
     "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/CompletionRequest"}}
     }
    },
    "responses": {
     "200": {
      "description": "The text; with `stream`, events.",
      "content": {
       "application/json": {"schema": {"$ref": "#/components/schemas/Completion"}},
       "text/event-stream": {"schema": {"$ref": "#/components/schemas/Completion"}}
      }
     },
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/v1/chat/completions": {
   "post": {
    "operationId": "createChatCompletion",
    "tags": ["generation"],
    "summary": "Answers a chat.",
    "requestBody": {
     "required": true,
     "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/ChatCompletionRequest"}}
     }
    },
    "responses": {
     "200": {
      "description": "The message; with `stream`, events.",
      "content": {
       "application/json": {"schema": {"$ref": "#/components/schemas/ChatCompletion"}},
       "text/event-stream": {"schema": {"$ref": "#/components/schemas/ChatCompletionChunk"}}
      }
     },
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/generate": {
   "post": {
    "operationId": "generate",
    "tags": ["generation"],
    "summary": "SGLang's native interface.",
    "requestBody": {
     "required": true,
     "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/GenerateRequest"}}
     }
    },
    "responses": {
     "200": {
      "description": "An answer, or a list for a list of prompts.",
      "content": {
       "application/json": {
        "schema": {
         "oneOf": [
          {"$ref": "#/components/schemas/GenerateAnswer"},
          {"type": "array", "items": {"$ref": "#/components/schemas/GenerateAnswer"}}
         ]
        }
       },
       "text/event-stream": {"schema": {"$ref": "#/components/schemas/GenerateAnswer"}}
      }
     },
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/abort_request": {
   "post": {
    "operationId": "abortRequest",
    "tags": ["generation"],
    "summary": "Ends a request, or all of them.",
    "requestBody": {
     "required": true,
     "content": {"application/json": {"schema": {"$ref": "#/components/schemas/AbortRequest"}}}
    },
    "responses": {
     "200": {"description": "Aborted."},
     "404": {"$ref": "#/components/responses/Error"},
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/tokenize": {
   "post": {
    "operationId": "tokenize",
    "tags": ["text"],
    "summary": "Text or a chat to token ids.",
    "requestBody": {
     "required": true,
     "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/TokenizeRequest"}}
     }
    },
    "responses": {
     "200": {
      "description": "The ids.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Tokens"}}}
     },
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/detokenize": {
   "post": {
    "operationId": "detokenize",
    "tags": ["text"],
    "summary": "Token ids to text.",
    "requestBody": {
     "required": true,
     "content": {
      "application/json": {"schema": {"$ref": "#/components/schemas/DetokenizeRequest"}}
     }
    },
    "responses": {
     "200": {
      "description": "The text.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Text"}}}
     },
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/v1/models": {
   "get": {
    "operationId": "listModels",
    "tags": ["models"],
    "summary": "The names of the model.",
    "responses": {
     "200": {
      "description": "All names.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ModelList"}}}
     },
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/v1/models/{model}": {
   "get": {
    "operationId": "retrieveModel",
    "tags": ["models"],
    "summary": "One of them.",
    "parameters": [
     {"name": "model", "in": "path", "required": true, "schema": {"type": "string"}}
    ],
    "responses": {
     "200": {
      "description": "The model.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Model"}}}
     },
     "404": {"$ref": "#/components/responses/Error"},
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/model_info": {
   "get": {
    "operationId": "modelInfo",
    "tags": ["models"],
    "summary": "The model, for SGLang's clients.",
    "responses": {
     "200": {
      "description": "The model.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ModelInfo"}}}
     },
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/server_info": {
   "get": {
    "operationId": "serverInfo",
    "tags": ["server"],
    "summary": "The server, for SGLang's clients.",
    "responses": {
     "200": {
      "description": "Settings and state.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ServerInfo"}}}
     },
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/flush_cache": {
   "get": {
    "operationId": "flushCacheByGet",
    "tags": ["server"],
    "summary": "Empties the prefix cache.",
    "responses": {
     "200": {"description": "Emptied."},
     "default": {"$ref": "#/components/responses/Error"}
    }
   },
   "post": {
    "operationId": "flushCache",
    "tags": ["server"],
    "summary": "Empties the prefix cache.",
    "responses": {
     "200": {"description": "Emptied."},
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/reset_prefix_cache": {
   "post": {
    "operationId": "resetPrefixCache",
    "tags": ["server"],
    "summary": "Empties the prefix cache.",
    "responses": {
     "200": {"description": "Emptied."},
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/version": {
   "get": {
    "operationId": "version",
    "tags": ["server"],
    "summary": "The version of the server.",
    "responses": {
     "200": {
      "description": "The version.",
      "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Version"}}}
     },
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/metrics": {
   "get": {
    "operationId": "metrics",
    "tags": ["server"],
    "summary": "Metrics for Prometheus.",
    "responses": {
     "200": {
      "description": "In Prometheus' text format.",
      "content": {"text/plain": {"schema": {"type": "string"}}}
     },
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/health": {
   "get": {
    "operationId": "health",
    "tags": ["health"],
    "summary": "Whether the server can answer requests.",
    "security": [],
    "responses": {
     "200": {"description": "It can."},
     "503": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/livez": {
   "get": {
    "operationId": "livez",
    "tags": ["health"],
    "summary": "Whether the process works: restart it if not.",
    "security": [],
    "responses": {
     "200": {"description": "It does."},
     "503": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/readyz": {
   "get": {
    "operationId": "readyz",
    "tags": ["health"],
    "summary": "Whether to send requests here.",
    "security": [],
    "responses": {
     "200": {"description": "Yes."},
     "503": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/openapi.json": {
   "get": {
    "operationId": "openapi",
    "tags": ["server"],
    "summary": "This document.",
    "responses": {
     "200": {
      "description": "OpenAPI 3.1.",
      "content": {"application/json": {"schema": {"type": "object"}}}
     },
     "default": {"$ref": "#/components/responses/Error"}
    }
   }
  },
  "/": {
   "get": {
    "operationId": "page",
    "tags": ["server"],
    "summary": "A page to chat, and to watch the metrics.",
    "security": [],
    "responses": {
     "200": {"description": "HTML.", "content": {"text/html": {"schema": {"type": "string"}}}}
    }
   }
  }
 },
 "components": {
  "securitySchemes": {
   "bearer": {"type": "http", "scheme": "bearer",
    "description": "One of the server's API keys, where it has any."}
  },
  "responses": {
   "Error": {
    "description": "What is wrong, in the shape of OpenAI's errors.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
   }
  }
 }
})json";

}  // namespace millrace
