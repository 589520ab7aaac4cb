// What a config.json of an unknown model_type has in common with the known families, for messages.
#pragma once

#include "model/families/architecture.h"

#include <reprise/io/json.h>

#include <span>
#include <string>
#include <vector>

namespace reprise {

/// What a family makes of a config.json, whatever its model_type.
struct FamilyReading {
  std::string model_type;
  Architecture architecture;
  std::vector<std::string> unread;  ///< fields that it does not know
  std::string refusal;              ///< of a value, or of a field that is missing; empty: none
};

/// One reading by each family.
std::vector<FamilyReading> readings_of(const Json& json);

/// "The nearest family is llama: …", with the fields that it does not read and the tensors that it
/// does not have. `tensors` are the names in the checkpoint; empty: not known.
std::string describe_nearest_family(const Json& json, std::span<const std::string> tensors);

}  // namespace reprise
