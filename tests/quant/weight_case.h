// Weights that bitsandbytes quantised, from tests/fixtures/quant.
#pragma once

#include "quant/quantized_weight.h"
#include "support/fixtures.h"
#include "support/tensors.h"

#include <reprise/io/json.h>
#include <reprise/io/tensor_file.h>

#include <string>
#include <vector>

namespace reprise::testing {

struct WeightCase {
  std::string name;
  at::Tensor input, output;  ///< before, and dequantised in float32
  quant::QuantizedWeight weight;
};

inline QuantFormat format_named(const std::string& name) {
  return name == "nf4" ? QuantFormat::Nf4 : name == "fp4" ? QuantFormat::Fp4 : QuantFormat::Int8;
}

inline std::vector<WeightCase> weight_cases() {
  const TensorFile file(fixtures() / "quant" / "weights.safetensors");
  const auto tensor = [&](const std::string& name) {
    const TensorInfo* info = file.find(name);
    return info == nullptr ? at::Tensor() : file.view(*info).clone();
  };
  const Json all = parse_json(file.metadata().at("cases"), "cases");
  std::vector<WeightCase> cases;
  for (const auto& [name, settings] : all.items()) {
    WeightCase one{name, tensor(name + ".input"), tensor(name + ".output"), {}};
    one.weight = {.scheme = {.format = format_named(settings["format"]),
                             .block = settings["block"],
                             .double_quant = settings["double_quant"]},
                  .out = one.input.size(0),
                  .in = one.input.size(1),
                  .packed = tensor(name + ".packed"),
                  .scales = tensor(name + ".scales"),
                  .nested_scales = tensor(name + ".nested_scales"),
                  .nested_map = tensor(name + ".nested_map"),
                  .offset = settings["offset"],
                  .source_type = one.input.scalar_type()};
    cases.push_back(one);
  }
  return cases;
}

/// A random matrix in each format, with and without double quantisation.
inline std::vector<quant::QuantizedWeight> random_weights(int64_t out, int64_t in) {
  torch::manual_seed(3);
  const auto matrix = torch::randn({out, in});
  std::vector<quant::QuantizedWeight> weights;
  for (const QuantScheme& scheme : {QuantScheme{.format = QuantFormat::Nf4},
                                    {.format = QuantFormat::Nf4, .double_quant = true},
                                    {.format = QuantFormat::Fp4, .block = 32},
                                    {.format = QuantFormat::Int8}}) {
    weights.push_back(quant::quantize(matrix, scheme));
  }
  return weights;
}

inline std::string name_of(const quant::QuantizedWeight& weight) {
  return std::string(reprise::name_of(weight.scheme.format)) +
         (weight.is_nested() ? " double" : "");
}

}  // namespace reprise::testing
