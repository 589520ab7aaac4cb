#include "loss/head/head_chunks.h"

#include "ops/cross_entropy.h"
#include "ops/linear/matmul.h"

#include "memory/planned_device.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

namespace reprise {

namespace {

// Small chunks fit the caches of a CPU; a GPU needs large ones to be busy.
constexpr int64_t kChunkBytes = int64_t{64} << 20;
constexpr int64_t kGpuChunkBytes = int64_t{512} << 20;

at::ScalarType type_of_products(const at::Tensor& hidden, const LinearHead& head) {
  if (head.in_float32) {
    return at::kFloat;
  }
  const auto device = memory::kernel_type(hidden.device());
  // Autocast does not change float64.
  if (at::autocast::is_autocast_enabled(device) && hidden.scalar_type() != at::kDouble) {
    return at::autocast::get_autocast_dtype(device);
  }
  TORCH_CHECK(hidden.scalar_type() == head.weight.scalar_type(),
              "[head] hidden states are ",
              hidden.scalar_type(),
              " and the head is ",
              head.weight.scalar_type(),
              ": convert one, use autocast, or set in_float32.");
  return hidden.scalar_type();
}

// A multiple of the tile size of a matrix product, if at least one tile fits.
int64_t tokens_in(int64_t bytes, int64_t token_bytes) {
  constexpr int64_t kTile = 256;
  const int64_t tokens = std::max<int64_t>(1, bytes / token_bytes);
  return tokens >= kTile ? tokens / kTile * kTile : tokens;
}

}  // namespace

bool has_fused_kernels(const LinearHead& head) {
  return head.shape.softcap == 0 && ops::has_cross_entropy_kernel(head.weight);
}

HeadPlan plan_narrow_head(const at::Tensor& hidden,
                          const LinearHead& head,
                          const HeadChunks& chunks,
                          double temperature) {
  HeadPlan plan = plan_head(hidden, head, chunks, temperature);
  plan.is_narrow = true;
  if (chunks.tokens == 0) {
    const auto value_bytes = static_cast<int64_t>(c10::elementSize(plan.product));
    plan.tokens = tokens_in(kGpuChunkBytes, head.weight.size(0) * value_bytes);
  }
  return plan;
}

HeadPlan plan_head(const at::Tensor& hidden,
                   const LinearHead& head,
                   const HeadChunks& chunks,
                   double temperature,
                   int64_t heads) {
  TORCH_CHECK(chunks.tokens >= 0,
              "[head] expected a number of tokens per chunk, or 0 for an automatic size; got ",
              chunks.tokens);
  TORCH_CHECK(temperature > 0, "[head] expected a temperature above 0, got ", temperature);
  // Capped logits have their derivatives beside them.
  const int64_t tensors = heads + (head.shape.softcap > 0 ? 1 : 0);
  const int64_t token_bytes =
      tensors * head.weight.size(0) * static_cast<int64_t>(c10::elementSize(at::kFloat));
  HeadPlan plan;
  plan.product = type_of_products(hidden, head);
  plan.statistics = plan.product == at::kDouble ? at::kDouble : at::kFloat;
  plan.tokens = chunks.tokens > 0
                    ? chunks.tokens
                    : tokens_in(memory::is_for_cuda(hidden.device()) ? kGpuChunkBytes : kChunkBytes,
                                token_bytes);
  plan.temperature = temperature;
  plan.shape = head.shape;
  return plan;
}

void keep_plan(torch::autograd::AutogradContext& context, const HeadPlan& plan) {
  context.saved_data["product"] = static_cast<int64_t>(plan.product);
  context.saved_data["statistics"] = static_cast<int64_t>(plan.statistics);
  context.saved_data["tokens"] = plan.tokens;
  context.saved_data["temperature"] = plan.temperature;
  context.saved_data["is_narrow"] = plan.is_narrow;
  context.saved_data["scale"] = plan.shape.scale;
  context.saved_data["softcap"] = plan.shape.softcap;
}

HeadPlan kept_plan(const torch::autograd::AutogradContext& context) {
  const auto& data = context.saved_data;
  return {
      .product = static_cast<at::ScalarType>(data.at("product").toInt()),
      .statistics = static_cast<at::ScalarType>(data.at("statistics").toInt()),
      .tokens = data.at("tokens").toInt(),
      .temperature = data.at("temperature").toDouble(),
      .is_narrow = data.at("is_narrow").toBool(),
      .shape = {.scale = data.at("scale").toDouble(), .softcap = data.at("softcap").toDouble()}};
}

at::Tensor ChunkBuffer::get(int64_t rows, int64_t columns, const at::TensorOptions& options) {
  if (!storage_.defined()) {
    storage_ = at::empty({rows * columns}, options);
  }
  return storage_.narrow(0, 0, rows * columns).view({rows, columns});
}

ChunkLogits::ChunkLogits(const HeadPlan& plan, const at::Tensor& weight, const at::Tensor& bias)
    : plan_(plan),
      weight_(weight.detach().to(plan.product)),
      bias_(bias.defined() ? bias.detach().to(plan.product) : at::Tensor()) {}

// Scaling is free here; as a separate pass it would read and write all logits.
void ChunkLogits::multiply(const at::Tensor& rows, at::Tensor& out, double scale) const {
  if (bias_.defined()) {
    at::addmm_out(out, bias_, rows, weight_.t(), scale, scale);
  } else if (scale == 1) {
    ops::matmul_into(out, rows, weight_, {.b = true});
  } else {
    out.addmm_(rows, weight_.t(), /*beta=*/0, /*alpha=*/scale);
  }
}

at::Tensor ChunkLogits::of(const at::Tensor& rows) {
  const auto options = weight_.options();
  auto logits = logits_.get(rows.size(0), weight_.size(0), options.dtype(plan_.statistics));
  const auto& [scale, softcap] = plan_.shape;
  const bool is_capped = softcap > 0;
  if (plan_.product == plan_.statistics) {
    multiply(rows, logits, is_capped ? scale : scale / plan_.temperature);
    return is_capped ? capped(logits) : logits;
  }
  // at::linear rounds before scaling, so scale afterwards.
  auto product = product_.get(rows.size(0), weight_.size(0), weight_.options());
  multiply(rows, product, 1);
  logits.copy_(product);
  if (scale != 1) {
    logits.mul_(scale);
  }
  if (is_capped) {
    return capped(logits);
  }
  return plan_.temperature == 1 ? logits : logits.div_(plan_.temperature);
}

// softcap tanh(logits / softcap), divided by the temperature; keeps the derivatives.
at::Tensor ChunkLogits::capped(const at::Tensor& logits) {
  const double softcap = plan_.shape.softcap;
  logits.div_(softcap).tanh_();
  cap_slopes_ = slopes_.like(logits);
  at::mul_out(cap_slopes_, logits, logits).neg_().add_(1);
  return logits.mul_(softcap / plan_.temperature);
}

at::Tensor ChunkLogits::narrow_of(const at::Tensor& rows) {
  TORCH_INTERNAL_ASSERT(plan_.shape.softcap == 0);
  auto product = product_.get(rows.size(0), weight_.size(0), weight_.options());
  multiply(rows, product, plan_.shape.scale);
  return product;
}

void ChunkLogits::to_products(const at::Tensor& grad_logits) const {
  if (cap_slopes_.defined()) {
    grad_logits.mul_(cap_slopes_);
  }
  if (plan_.shape.scale != 1) {
    grad_logits.mul_(plan_.shape.scale);
  }
}

at::Tensor ChunkLogits::as_operand(const at::Tensor& chunk) {
  if (chunk.scalar_type() == plan_.product) {
    return chunk;
  }
  // Overwrites the rounded logits, which are no longer needed.
  return product_.get(chunk.size(0), chunk.size(1), weight_.options()).copy_(chunk);
}

}  // namespace reprise
