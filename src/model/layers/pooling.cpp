// Model::score(): the score of a sequence is the output at one of its positions.
#include <reprise/model/model.h>

#include <ATen/ATen.h>

namespace reprise {

namespace {

// The last position in each row where `counts` is not 0, or 0 if there is none.
at::Tensor last_nonzero(const at::Tensor& counts) {
  const auto positions = at::arange(counts.size(1), counts.options().dtype(at::kLong));
  const auto marked = at::where(counts != 0, positions, -1);
  return std::get<0>(marked.max(1)).clamp_min(0);
}

at::Tensor pooled_positions(const ModelInput& input, Pooling pooling, std::optional<int64_t> pad) {
  const auto& ids = input.input_ids;
  if (pooling == Pooling::LastAttended) {
    return input.attention_mask.defined() ? last_nonzero(input.attention_mask)
                                          : at::full({ids.size(0)}, ids.size(1) - 1, ids.options());
  }
  if (!pad) {
    TORCH_CHECK(ids.size(0) == 1,
                "[model] config.json has no pad_token_id, so the ends of ",
                ids.size(0),
                " sequences are unknown: set it, or pool at the last attended position.");
    return at::full({1}, ids.size(1) - 1, ids.options());
  }
  return last_nonzero(ids != *pad);
}

}  // namespace

at::Tensor Model::score(const ModelInput& input, Pooling pooling) {
  TORCH_CHECK(head_kind_ == HeadKind::Score, "[model] score() needs a model with a Score head.");
  const auto hidden = hidden_states(input);
  const auto positions = pooled_positions(input, pooling, config_.pad_id);
  const auto rows = at::arange(hidden.size(0), positions.options());
  // Only the pooled positions go through the head.
  return apply_head(hidden.index({rows, positions}), input.adapters);
}

}  // namespace reprise
