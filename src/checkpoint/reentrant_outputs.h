// What a reentrant region returns.
//
// Note [Outputs that share memory]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// A reentrant region's node is no view: autograd does not know that an output shares memory with an
// input, with a tensor that the callable captures or stores, or with another output. If one of them
// were changed in place, the others would have the new values without their history. So such
// outputs become views of the kind that LibTorch refuses to change with gradients, as it does for
// custom functions. An output whose memory has no other name stays as free as any tensor.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace reprise::detail {

/// For each output of forward, whether its memory has another name. Call it while the result of the
/// callable and `outputs` hold the tensors.
std::vector<bool> have_other_names(const std::vector<at::Tensor>& outputs,
                                   const std::vector<at::Tensor>& inputs);

/// `output` without a history, to be given one.
at::Tensor detached_output(const at::Tensor& output, bool has_other_name);

}  // namespace reprise::detail
