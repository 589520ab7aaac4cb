#include "model/quantization/load_quantized.h"

#include "model/quantization/quantize_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <utility>

namespace reprise {

namespace {

bool is_stored_quantized(const NamedStore& store, const std::string& path) {
  const TensorInfo* info = store.find(path + ".weight");
  return info != nullptr && (info->dtype == at::kByte || info->dtype == at::kChar);
}

quant::QuantizedWeight quantize_stored(NamedStore& store,
                                       const std::string& path,
                                       const Linear::Shape& shape,
                                       const QuantizedLoad& load) {
  const bool is_out_in = shape.layout == WeightLayout::OutIn;
  const auto first = is_out_in ? shape.out : shape.in, second = is_out_in ? shape.in : shape.out;
  const auto stored = store.take_as(path + ".weight", load.dtype, {first, second});
  try {
    return quant::quantize(is_out_in ? stored : stored.t(), load.config.scheme);
  } catch (c10::Error& error) {
    error.add_context("while quantising " + path + ".weight");
    throw;
  }
}

void check_head(const Model& model, const NamedStore& store) {
  TORCH_CHECK(!is_stored_quantized(store, model.head_path()),
              "[quant] ",
              store.stored_name(model.head_path() + ".weight"),
              ": expected a head that is not quantised: its losses need the matrix. Save the model "
              "again with llm_int8_skip_modules [\"",
              model.head_path(),
              "\"].");
}

}  // namespace

void load_quantized_layers(Model& model, NamedStore& store, const QuantizedLoad& load) {
  const at::NoGradGuard no_grad;
  if (load.is_stored) {
    check_head(model, store);
  } else {
    check_skips(model, load.config);
  }
  for (const auto& [path, linear] : linears_of(model)) {
    const auto& shape = linear->shape();
    const bool is_quantized =
        load.is_stored ? is_stored_quantized(store, path) : converts(model, load.config, path);
    if (!is_quantized) {
      continue;
    }
    auto weight = load.is_stored
                      ? read_stored_weight(store, path, shape.out, shape.in, load.config.scheme)
                      : quantize_stored(store, path, shape, load);
    linear->set_quantized(std::make_shared<const quant::QuantizedWeight>(weight.to(load.device)),
                          load.config.compute_type);
  }
  TORCH_CHECK(is_quantized(model),
              "[quant] expected quantised weights, as config.json has quantization_config, found "
              "none.");
  model.set_quantization(load.config);
}

}  // namespace reprise
