// What an optimizer keeps for one parameter, or for this process's part of it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

/// One tensor of the state of a parameter, as a rule asks for it. It begins as zeros.
struct StateSpec {
  std::string name;  ///< with the name that the reference implementation has for it
  at::ScalarType dtype = at::kFloat;
  std::vector<int64_t> shape;  ///< of the whole tensor, however the parameter is sharded
  int64_t begin = 0;           ///< this process has the elements [begin, begin + count)
  int64_t count = 0;
};

/// A parameter and its state. Tensors are contiguous; under sharding they are flat.
struct ParameterState {
  std::string name;
  std::vector<int64_t> shape;  ///< of the whole parameter
  int64_t begin = 0;           ///< the parameter's first element in the whole
  at::Tensor parameter;
  at::Tensor master;                ///< float32 copy of a 16-bit parameter; otherwise undefined
  std::vector<StateSpec> specs;     ///< UpdateRule::state_of()
  std::vector<at::Tensor> buffers;  ///< one for each of specs
  at::Tensor host_gradient;         ///< instead of parameter.grad(), if gradients are on the host
  at::Tensor step;                  ///< number of updates: float32, one element, on its device
  int64_t updates = 0;              ///< the same number, for rules that compute with it on the CPU
  double weight_decay = 0;

  const at::Tensor& value() const { return master.defined() ? master : parameter; }
};

/// Sorted by this, parameters that can share a kernel call are adjacent.
bool comes_before(const ParameterState& a, const ParameterState& b);

}  // namespace reprise
