#include "model/layers/attention_mask.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace reprise {

namespace {

void check_shape(const char* name, const at::Tensor& tensor, int64_t batch, int64_t length) {
  TORCH_CHECK(!tensor.defined() ||
                  (tensor.dim() == 2 && tensor.size(0) == batch && tensor.size(1) == length),
              "[model] ",
              name,
              ": expected the shape (",
              batch,
              ", ",
              length,
              "), got ",
              tensor.sizes());
}

// Checks only what the host knows: reading values on a GPU would synchronise with it.
void check_runs(const ModelInput& input) {
  const auto& starts = input.document_starts;
  if (!starts.defined()) {
    return;
  }
  const int64_t batch = input.input_ids.size(0), length = input.input_ids.size(1);
  TORCH_CHECK(starts.dim() == 1 && starts.scalar_type() == at::kInt && starts.is_contiguous() &&
                  starts.size(0) > batch && starts.size(0) <= batch * length + 1 &&
                  starts.device() == input.input_ids.device(),
              "[model] document_starts: expected int32 numbers on the device of the ids, one more "
              "than there are runs, of which ",
              batch,
              " rows have at least one each, got ",
              starts.toString(),
              starts.sizes(),
              " on ",
              starts.device());
  TORCH_CHECK(input.longest_document > 0 && input.longest_document <= length,
              "[model] longest_document: expected a number from 1 to ",
              length,
              ", the length of the rows, beside document_starts, got ",
              input.longest_document);
  TORCH_CHECK(!starts.is_cpu() || starts[-1].item<int64_t>() == batch * length,
              "[model] document_starts: expected ",
              batch * length,
              " at the end, the number of all tokens, got ",
              starts[-1].item<int64_t>());
}

void check(const ModelInput& input, int64_t past) {
  const auto& ids = input.input_ids;
  TORCH_CHECK(ids.defined() && ids.dim() == 2 && ids.numel() > 0 &&
                  (ids.scalar_type() == at::kLong || ids.scalar_type() == at::kInt),
              "[model] input_ids: expected integers of the shape (batch, length), got ",
              ids.defined() ? c10::str(ids.scalar_type(), ids.sizes()) : "nothing");
  check_shape("attention_mask", input.attention_mask, ids.size(0), past + ids.size(1));
  check_shape("position_ids", input.position_ids, ids.size(0), ids.size(1));
  check_shape("document_ids", input.document_ids, ids.size(0), ids.size(1));
  TORCH_CHECK((!input.document_ids.defined() && !input.document_starts.defined()) || past == 0,
              "[model] packed documents cannot continue a KV cache.");
  check_runs(input);
}

// Padding and documents, without causality and windows: (B, 1, T, S), or undefined if all attend to
// all.
at::Tensor padding_and_documents(const ModelInput& input) {
  at::Tensor allowed;
  // A mask of ones has no effect, and without a mask the faster kernels serve. The test
  // synchronises with the device; an input with document_starts was tested when they were made.
  if (input.attention_mask.defined() &&
      (input.document_starts.defined() || !input.attention_mask.all().item<bool>())) {
    allowed = input.attention_mask.to(at::kBool).unsqueeze(1).unsqueeze(1);
  }
  if (input.document_ids.defined()) {
    const auto& documents = input.document_ids;
    const auto same = (documents.unsqueeze(1) == documents.unsqueeze(2)).unsqueeze(1);
    allowed = allowed.defined() ? allowed & same : same;
  }
  return allowed;
}

// For each token, the place in its row where its document begins.
at::Tensor begins_of(const at::Tensor& documents) {
  const int64_t length = documents.size(1);
  auto begins = at::zeros_like(documents, at::kLong);
  if (length > 1) {
    const auto is_new = documents.slice(1, 1) != documents.slice(1, 0, length - 1);
    begins.slice(1, 1).copy_(is_new * at::arange(1, length, begins.options()));
  }
  return std::get<0>(begins.cummax(1));
}

}  // namespace

at::Tensor positions_of(const ModelInput& input, int64_t past, bool skips_padding) {
  if (input.position_ids.defined()) {
    return input.position_ids;
  }
  if (skips_padding) {
    return attended_positions(input, past).slice(1, past);
  }
  const int64_t length = input.input_ids.size(1);
  const auto counted =
      at::arange(past, past + length, input.input_ids.options().dtype(at::kLong)).unsqueeze(0);
  return input.document_ids.defined() ? counted - begins_of(input.document_ids) : counted;
}

at::Tensor attended_positions(const ModelInput& input, int64_t past) {
  const auto& documents = input.document_ids;
  if (!input.attention_mask.defined()) {
    const auto options = input.input_ids.options().dtype(at::kLong);
    const auto counted = at::arange(past + input.input_ids.size(1), options).unsqueeze(0);
    return documents.defined() ? counted - begins_of(documents) : counted;
  }
  const auto attended = input.attention_mask.to(at::kLong);
  auto counts = attended.cumsum(1);
  if (documents.defined()) {
    counts = counts - (counts - attended).gather(1, begins_of(documents));
  }
  return counts * attended - 1;
}

std::map<int64_t, AttentionMask> attention_masks(const ModelInput& input,
                                                 int64_t past,
                                                 const std::vector<int64_t>& windows,
                                                 bool goes_by_runs) {
  check(input, past);
  const at::NoGradGuard no_grad;
  const int64_t length = input.input_ids.size(1), total = past + length;
  const auto options = input.input_ids.options().dtype(at::kLong);
  const auto keys = at::arange(total, options);
  const auto queries = at::arange(past, total, options).unsqueeze(1);
  const auto& starts = input.document_starts;
  const bool has_runs = goes_by_runs && starts.defined();
  // As many runs as rows: no padding, and one document per row.
  const bool is_whole = starts.defined() && starts.size(0) == input.input_ids.size(0) + 1;
  const auto shared = is_whole || has_runs ? at::Tensor() : padding_and_documents(input);
  std::map<int64_t, AttentionMask> masks;
  for (const int64_t window : windows) {
    if (masks.contains(window)) {
      continue;
    }
    const bool cuts = window > 0 && window < total;
    if (has_runs && (cuts || !is_whole)) {
      masks[window].documents = {starts, input.longest_document, window};
      continue;
    }
    if (!shared.defined() && !cuts) {
      // One new token attends to the whole past: neither mask nor causality is needed.
      if (length == 1 || past == 0) {
        masks[window] = {{}, length > 1};
        continue;
      }
    }
    auto allowed = keys <= queries;
    if (cuts) {
      allowed = allowed & (keys > queries - window);
    }
    allowed = allowed.unsqueeze(0).unsqueeze(0);
    if (shared.defined()) {
      // A padded query would attend to nothing, which gives NaN in the softmax: let it attend to
      // itself.
      allowed = (allowed & shared) | (keys == queries);
    }
    masks[window] = {allowed, false};
  }
  return masks;
}

std::map<int64_t, AttentionMask> sliced_masks(const ModelInput& input,
                                              int64_t past,
                                              const std::vector<int64_t>& windows) {
  check(input, past);
  const at::NoGradGuard no_grad;
  // Padding is a run of its own, before all documents.
  auto runs = input.document_ids;
  if (input.attention_mask.defined()) {
    const auto attended = input.attention_mask.to(at::kBool);
    runs = runs.defined() ? (runs - runs.min() + 1) * attended : attended.to(at::kInt);
  }
  std::map<int64_t, AttentionMask> masks;
  for (const int64_t window : windows) {
    masks[window] = {.runs = runs, .window = window};
  }
  return masks;
}

}  // namespace reprise
