// Options that quantise a model while it is loaded, for commands that do not train: an adapter that
// was trained over a quantised base (QLoRA) is then used over the same base.
#pragma once

#include <reprise/model/quantization_config.h>

#include <CLI/CLI.hpp>

#include <optional>
#include <string>
#include <vector>

namespace reprise::app {

struct QuantizedBase {
  bool in_4bit = false, in_8bit = false;
  std::string type = "nf4";               ///< of 4 bits
  bool is_nested = false;                 ///< double quantisation
  std::vector<std::string> skip_modules;  ///< besides the head
};

/// Adds --load_in_4bit and --load_in_8bit, and the options that need one of them.
void add_quantized_base_options(CLI::App& command, QuantizedBase& options);

/// Unset: the weights stay as they are stored.
std::optional<QuantizationConfig> quantization_of(const QuantizedBase& options);

}  // namespace reprise::app
