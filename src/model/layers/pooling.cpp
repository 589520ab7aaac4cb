// Model::score(): the score of a sequence is the output at one of its positions. Where a sequence
// ends is known from the mask and the documents, never from the ids: a padding id may be the end
// token, and may occur in a text.
#include <reprise/model/model.h>

#include <ATen/ATen.h>

#include <utility>

namespace reprise {

namespace {

// (B, T) bool: the positions that the score may be taken from.
at::Tensor candidates(const ModelInput& input, Pooling pooling, std::optional<int64_t> pad) {
  const auto& ids = input.input_ids;
  const auto attended =
      input.attention_mask.defined() ? input.attention_mask != 0 : at::ones_like(ids, at::kBool);
  return pooling == Pooling::RightmostNotPad && pad ? attended.logical_and(ids != *pad) : attended;
}

// The last candidate in each row, or 0 if there is none.
at::Tensor last_of_rows(const at::Tensor& candidates) {
  const auto positions = at::arange(candidates.size(1), candidates.options().dtype(at::kLong));
  return std::get<0>(at::where(candidates, positions, -1).max(1)).clamp_min(0);
}

// The last candidate in each document that has a token (padding is a document without), or the
// document's first position if it has no candidate. Positions are counted over all rows.
at::Tensor last_of_documents(const ModelInput& input, const at::Tensor& candidates) {
  const auto& documents = input.document_ids;
  auto starts = at::ones_like(documents, at::kBool);
  starts.slice(1, 1).copy_(documents.slice(1, 1) != documents.slice(1, 0, -1));
  const auto number = starts.flatten().cumsum(0) - 1;
  const auto positions = at::arange(number.numel(), number.options());
  const auto first = positions.masked_select(starts.flatten());
  const auto last_where = [&](const at::Tensor& marks) {
    return at::full_like(first, -1).scatter_reduce(
        0, number, at::where(marks.flatten(), positions, -1), "amax");
  };
  const auto last = last_where(candidates);
  const auto found = at::where(last < 0, first, last);
  return input.attention_mask.defined()
             ? found.masked_select(last_where(input.attention_mask != 0) >= 0)
             : found;
}

}  // namespace

at::Tensor Model::score(const ModelInput& input, Pooling pooling) {
  TORCH_CHECK(head_kind_ == HeadKind::Score, "[model] score() needs a model with a Score head.");
  const auto hidden = hidden_states(input);
  const auto marks = candidates(input, pooling, config_.pad_id);
  // Only the pooled positions go through the head.
  if (input.document_ids.defined()) {
    const auto ends = last_of_documents(input, marks);
    return apply_head(hidden.flatten(0, 1).index_select(0, ends), input.adapters);
  }
  const auto ends = last_of_rows(marks);
  const auto rows = at::arange(hidden.size(0), ends.options());
  return apply_head(hidden.index({rows, ends}), input.adapters);
}

}  // namespace reprise
