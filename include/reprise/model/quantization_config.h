// How the linear layers of a model are quantised: the field quantization_config of config.json, in
// bitsandbytes' spelling.
#pragma once

#include <reprise/export.h>
#include <reprise/io/json.h>
#include <reprise/quant/format.h>

#include <c10/core/ScalarType.h>

#include <optional>
#include <string>
#include <vector>

namespace reprise {

struct QuantizationConfig {
  QuantScheme scheme = {};
  /// Type of the matrix products; their results have the type of the input again. Unset: the type
  /// of the input, or of autocast.
  std::optional<at::ScalarType> compute_type = {};
  /// Linear layers that stay as they are, besides the head: paths, the beginnings of paths or their
  /// ends.
  std::vector<std::string> skip_modules = {};
  Json source = {};  ///< the original field, so that to_json() keeps what is not known here

  /// Throws for another method than bitsandbytes and for values that are not supported. `source`
  /// names the file in messages.
  REPRISE_API static QuantizationConfig from_json(const Json& json, const std::string& source);
  REPRISE_API Json to_json() const;
  /// "nf4, double quantisation", "int8", …
  REPRISE_API std::string describe() const;
};

}  // namespace reprise
