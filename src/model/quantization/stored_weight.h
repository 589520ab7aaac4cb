// A quantised weight in a checkpoint, as bitsandbytes and transformers store it.
//
//   4 bits   P.weight (codes, uint8), P.weight.absmax, P.weight.quant_map and
//            P.weight.quant_state.bitsandbytes__nf4 (or fp4): JSON in a tensor of bytes; with
//            double quantisation also P.weight.nested_absmax and P.weight.nested_quant_map
//   int8     P.weight (int8), P.SCB (scales), P.weight_format (0: row by row)
//
// Nothing in a file is trusted: sizes, tables and every scale are checked.
#pragma once

#include "quant/quantized_weight.h"

#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/model/quantization_config.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace reprise {

/// Tensors of a checkpoint by the names that the model gives them. What is taken is erased, so that
/// what nobody takes is found.
class NamedStore {
 public:
  /// `names`: from the model's name to that in the checkpoint.
  NamedStore(const TensorCheckpoint& checkpoint, std::map<std::string, std::string>& names)
      : checkpoint_(checkpoint), names_(names) {}

  const TensorInfo* find(const std::string& name) const;
  /// Throws, naming the tensor, if it is missing or of another type or shape.
  at::Tensor take(const std::string& name, at::ScalarType type, at::IntArrayRef shape);
  /// A copy in this type on the CPU.
  at::Tensor take_as(const std::string& name, at::ScalarType type, at::IntArrayRef shape);
  /// Of the tensor in the checkpoint, for messages.
  std::string stored_name(const std::string& name) const;

 private:
  at::Tensor take_out(const std::string& name, const TensorInfo& info, at::ScalarType type);

  const TensorCheckpoint& checkpoint_;
  std::map<std::string, std::string>& names_;
};

/// The weight of the layer at `path`, on the CPU.
quant::QuantizedWeight read_stored_weight(
    NamedStore& store, const std::string& path, int64_t out, int64_t in, const QuantScheme& scheme);

/// What read_stored_weight() reads.
std::vector<LazyTensor> stored_tensors(const std::string& path,
                                       const quant::QuantizedWeight& weight);

}  // namespace reprise
