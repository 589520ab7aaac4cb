#include "model/lora/lora_convert.h"

#include "model/lora/lora_plan.h"

#include <reprise/dist/world.h>
#include <reprise/model/sharded_parameters.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <functional>
#include <utility>
#include <vector>

namespace reprise {

namespace {

using Visit = std::function<void(const std::string& path, LoraBranch& branch)>;

void for_each_with_start(const Model& model, const Visit& visit) {
  for (const auto& item : model.named_modules(/*name_prefix=*/"", /*include_self=*/false)) {
    const auto* linear = item.value()->as<Linear>();
    if (linear != nullptr && linear->branch() != nullptr && linear->branch()->subtracts_start()) {
      visit(item.key(), *linear->branch());
    }
  }
}

// The sum adds zeros to the elements that a process does not have.
at::Tensor whole_of(const Model& model, const std::string& name, const at::Tensor& parameter) {
  const auto* sharded = model.sharded_parameters();
  if (sharded == nullptr) {
    return parameter.detach();
  }
  auto flat = at::zeros({parameter.numel()}, parameter.options().requires_grad(false));
  const TensorPart part = sharded->part_of(name, parameter);
  if (part.values.defined() && part.values.numel() > 0) {
    flat.narrow(0, part.begin, part.values.numel()).copy_(part.values);
  }
  return sharded->world().sum(flat, "the values of " + name).view(parameter.sizes());
}

at::Tensor read(const TensorCheckpoint& saved,
                const std::string& name,
                const std::vector<int64_t>& shape,
                const at::TensorOptions& options) {
  const TensorInfo* info = saved.find(name);
  TORCH_CHECK(info != nullptr && info->shape == shape,
              "[lora] the checkpoint's tensor ",
              name,
              ": expected the shape ",
              c10::IntArrayRef(shape),
              ", an adapter and where it began, found ",
              info == nullptr ? "none" : c10::str(c10::IntArrayRef(info->shape)));
  auto values = at::empty(shape, options.requires_grad(false));
  saved.copy_to(name, values);
  return values;
}

}  // namespace

LoraConfig converted(LoraConfig config) {
  if (!config.init.is_decomposition()) {
    return config;
  }
  const double factor = config.use_rslora ? std::sqrt(2.0) : 2.0;  // the scale stays as it is
  config.init = {};
  config.rank *= 2;
  config.alpha *= factor;
  for (auto& [expression, rank] : config.rank_pattern) {
    rank *= 2;
  }
  for (auto& [expression, alpha] : config.alpha_pattern) {
    alpha *= factor;
  }
  return config;
}

std::map<std::string, at::Tensor> converted_tensors(const Model& model) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> tensors;
  for_each_with_start(model, [&](const std::string& path, const LoraBranch& branch) {
    const std::string a = adapter_name(path, kMatrixA), b = adapter_name(path, kMatrixB);
    tensors[a] = at::cat({whole_of(model, a, branch.a), branch.start_a}, 0);
    tensors[b] = at::cat({whole_of(model, b, branch.b), branch.minus_start_b}, 1);
  });
  return tensors;
}

std::map<std::string, at::Tensor> restore_starts(const Model& model,
                                                 const TensorCheckpoint& saved) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> values;
  for_each_with_start(model, [&](const std::string& path, LoraBranch& branch) {
    const std::string a = adapter_name(path, kMatrixA), b = adapter_name(path, kMatrixB);
    const int64_t rank = branch.rank(), in = branch.a.size(1), out = branch.b.size(0);
    const auto both_a = read(saved, a, {2 * rank, in}, branch.start_a.options());
    const auto both_b = read(saved, b, {out, 2 * rank}, branch.minus_start_b.options());
    branch.start_a.copy_(both_a.narrow(0, rank, rank));
    branch.minus_start_b.copy_(both_b.narrow(1, rank, rank));
    values[a] = both_a.narrow(0, 0, rank).contiguous();
    values[b] = both_b.narrow(1, 0, rank).contiguous();
  });
  return values;
}

}  // namespace reprise
