// Which of a server's metrics say what we ask of every server: one table of the names that vLLM,
// SGLang, TensorRT-LLM, llama-server, lmdeploy, TGI, Dynamo and millrace use. Pure functions.
#pragma once

#include "loadgen/metrics_text.h"
#include "results/point_record.h"

namespace millrace::bench {

// Sets what `metrics` says; the rest of `sample` stays. Figures of several engines or models behind
// one address add up, shares are averaged. SGLang's ranks of one engine each repeat its figures:
// only the first rank counts. SGLang's `cache_hit_rate` is not read: it is of the last batch.
void read_server_figures(const MetricsText& metrics, ServerSample& sample);

}  // namespace millrace::bench
