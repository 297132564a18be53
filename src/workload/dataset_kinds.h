// The datasets by kind; make_dataset() has refused by then what a kind has no use for.
#pragma once

#include <memory>

#include "base/result.h"
#include "workload/dataset.h"
#include "workload/prompt_writer.h"

namespace millrace::bench {

using CodecPtr = std::shared_ptr<const TokenCodec>;  // of the caller and the dataset
using WriterPtr = std::shared_ptr<const PromptWriter>;
using DatasetResult = Result<std::unique_ptr<Dataset>>;

// Keys of a run: what the seed alone decides (lengths), and what no other nonce gives again.
struct RunKeys {
  uint64_t lengths = 0;
  uint64_t texts = 0;
};
RunKeys run_keys(const DatasetOptions& options);

// "random"; "emulated" without a path.
DatasetResult make_random_dataset(const DatasetOptions& options, WriterPtr writer);
DatasetResult make_random_ids_dataset(const DatasetOptions& options, WriterPtr writer);
DatasetResult make_grid_dataset(const DatasetOptions& options, WriterPtr writer);
DatasetResult make_shared_prefix_dataset(const DatasetOptions& options, WriterPtr writer);
DatasetResult make_prefix_repetition_dataset(const DatasetOptions& options, WriterPtr writer);
// "emulated" with a path.
DatasetResult make_emulated_dataset(const DatasetOptions& options, WriterPtr writer);
DatasetResult make_sonnet_dataset(const DatasetOptions& options, WriterPtr writer);

DatasetResult make_sharegpt_dataset(const DatasetOptions& options, CodecPtr codec);
// The codec may be null.
DatasetResult make_custom_dataset(const DatasetOptions& options, CodecPtr codec);

DatasetResult make_mooncake_dataset(const DatasetOptions& options, WriterPtr writer);
DatasetResult make_timed_trace_dataset(const DatasetOptions& options, WriterPtr writer);
DatasetResult make_burstgpt_dataset(const DatasetOptions& options, WriterPtr writer);

}  // namespace millrace::bench
