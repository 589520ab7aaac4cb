#include "reprise/training/options/quantization_options.h"

#include <reprise/io/dtype.h>

namespace reprise::app {

std::optional<QuantizationConfig> quantization_options(const TrainingFlags& flags) {
  if (!flags.load_in_4bit && !flags.load_in_8bit) {
    return std::nullopt;
  }
  QuantizationConfig config;
  config.skip_modules = flags.llm_int8_skip_modules;
  if (flags.load_in_8bit) {
    config.scheme.format = QuantFormat::Int8;
    return config;
  }
  config.scheme.format = flags.bnb_4bit_quant_type == "fp4" ? QuantFormat::Fp4 : QuantFormat::Nf4;
  config.scheme.double_quant = flags.use_bnb_nested_quant;
  if (!flags.bnb_4bit_compute_dtype.empty()) {
    config.compute_type = dtype_named(flags.bnb_4bit_compute_dtype);
  }
  return config;
}

}  // namespace reprise::app
