// Which tensor of a checkpoint belongs to which parameter.
#pragma once

#include "model/families/architecture.h"

#include <reprise/io/tensor_file.h>

#include <map>
#include <set>
#include <string>

namespace reprise {

/// Parameter name -> name in the checkpoint. Checkpoints of the bare backbone lack its prefix
/// (wte.weight for transformer.wte.weight), and old ones contain buffers that are computed here.
std::map<std::string, std::string> checkpoint_names(const TensorCheckpoint& checkpoint,
                                                    const Architecture& architecture);

/// The same for the text part of a model that has others. Where no tensor has the prefix of a text
/// part, the text part is what the names of a text model say. The parts that are left go to
/// `others`: "vision_tower.*".
std::map<std::string, std::string> text_names(const TensorCheckpoint& checkpoint,
                                              const Architecture& architecture,
                                              std::set<std::string>& others);

}  // namespace reprise
