// PiSSA and OLoRA adapters in files: s B A - s B0 A0 is plain LoRA of twice the rank, with the
// matrices [A; A0] and [B, -B0]. So they are saved, as peft does with
// path_initial_model_for_weight_conversion, and the file has all that a run needs to continue.
#pragma once

#include <reprise/export.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/lora.h>
#include <reprise/model/model.h>

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace reprise {

/// The config of such an adapter as it is saved; any other config as it is.
LoraConfig converted(LoraConfig config);

/// The matrices as they are saved, by their names in the file; empty if the model has no such
/// adapters. If the model is sharded, all of its processes must call it.
std::map<std::string, at::Tensor> converted_tensors(const Model& model);

/// The inverse, for a run that is resumed: gives the adapters their A0 and B0, and returns the
/// values of A and B by name, in the types and on the devices of the model's. Throws if the file
/// does not have them.
REPRISE_API std::map<std::string, at::Tensor> restore_starts(const Model& model,
                                                             const TensorCheckpoint& saved);

}  // namespace reprise
