#include "reprise/quantized_base.h"

#include <c10/util/Exception.h>

namespace reprise::app {

void add_quantized_base_options(CLI::App& command, QuantizedBase& options) {
  auto* four = command.add_flag(
      "--load_in_4bit", options.in_4bit, "Quantise the linear layers except the head to 4 bits");
  auto* eight = command.add_flag(
      "--load_in_8bit", options.in_8bit, "Quantise the linear layers except the head to 8 bits");
  four->excludes(eight);
  command.add_option("--bnb_4bit_quant_type", options.type, "Format of 4-bit weights")
      ->check(CLI::IsMember({"nf4", "fp4"}))
      ->capture_default_str()
      ->needs(four);
  command
      .add_flag("--use_bnb_nested_quant,--bnb_4bit_use_double_quant",
                options.is_nested,
                "Double quantisation: the scales of 4-bit weights take 8 bits")
      ->needs(four);
  command
      .add_option("--llm_int8_skip_modules",
                  options.skip_modules,
                  "Linear layers that are not quantised, besides the head")
      ->delimiter(',')
      ->type_name("NAME");
}

std::optional<QuantizationConfig> quantization_of(const QuantizedBase& options) {
  if (!options.in_4bit && !options.in_8bit) {
    TORCH_CHECK(options.skip_modules.empty(),
                "--llm_int8_skip_modules has no effect without --load_in_4bit or --load_in_8bit");
    return std::nullopt;
  }
  QuantizationConfig config;
  config.skip_modules = options.skip_modules;
  config.scheme.format = options.in_8bit         ? QuantFormat::Int8
                         : options.type == "fp4" ? QuantFormat::Fp4
                                                 : QuantFormat::Nf4;
  config.scheme.double_quant = options.is_nested;
  return config;
}

}  // namespace reprise::app
