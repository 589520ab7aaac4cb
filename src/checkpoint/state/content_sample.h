// A few elements of a tensor, as a fingerprint.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace reprise::detail {

/// Note [Samples of values]
/// ~~~~~~~~~~~~~~~~~~~~~~~~
/// What a region does beyond operators cannot be observed: C++ variables, threads that it starts,
/// memory that it reads or writes directly. If a recompute differs for such a reason, its tensors
/// nearly always differ in many elements. So on the CPU, where reading an element costs a
/// nanosecond, a few elements of each saved tensor are compared too. This is a net below the other
/// checks, not a proof: DeterminismCheck::Values compares everything.
///
/// A hash of a few elements, the same for the same content; 0 for tensors that cannot be read at
/// once (on a GPU, sparse, without content).
uint64_t content_sample(const at::Tensor& tensor);

/// The same of a whole storage.
uint64_t content_sample(const c10::StorageImpl& storage);

/// The elements themselves, for comparisons with a tolerance; empty if they cannot be read at once.
std::vector<double> value_sample(const at::Tensor& tensor);

}  // namespace reprise::detail
