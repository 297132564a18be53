#include "model/output_rows.h"

#include <algorithm>
#include <vector>

namespace millrace {
namespace {

std::vector<bool> wanted_tokens(const ForwardBatch& batch) {
  std::vector<bool> is_wanted(batch.token_ids.size());
  for (const LogitRow& row : batch.logit_rows) {
    if (row.source == LogitRow::Source::kToken) is_wanted[static_cast<size_t>(row.index)] = true;
  }
  for (const HiddenSave& save : batch.hidden_saves)
    is_wanted[static_cast<size_t>(save.token)] = true;
  return is_wanted;
}

OutputRows rows_of_wanted(const ForwardBatch& batch, const std::vector<bool>& is_wanted) {
  OutputRows rows;
  rows.row_of.assign(batch.token_ids.size(), -1);
  rows.cu_seqlens = {0};
  for (size_t sequence = 0; sequence + 1 < batch.cu_seqlens.size(); ++sequence) {
    int32_t begin = batch.cu_seqlens[sequence];
    int32_t end = batch.cu_seqlens[sequence + 1];
    while (begin < end && !is_wanted[static_cast<size_t>(begin)]) ++begin;
    while (begin < end && !is_wanted[static_cast<size_t>(end - 1)]) --end;
    for (int32_t token = begin; token < end; ++token) {
      rows.row_of[static_cast<size_t>(token)] = static_cast<int32_t>(rows.num_rows());
      rows.tokens.push_back(token);
      rows.positions.push_back(batch.positions[static_cast<size_t>(token)]);
    }
    rows.cu_seqlens.push_back(static_cast<int32_t>(rows.num_rows()));
  }
  return rows;
}

}  // namespace

OutputRows output_rows(const ForwardBatch& batch) {
  return rows_of_wanted(batch, wanted_tokens(batch));
}

OutputRows all_rows(const ForwardBatch& batch) {
  return rows_of_wanted(batch, std::vector<bool>(batch.token_ids.size(), true));
}

}  // namespace millrace
