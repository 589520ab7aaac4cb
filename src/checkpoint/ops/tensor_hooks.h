// Lets this thread's listeners decide whether tensor hooks are registered.
#pragma once

namespace reprise::detail {

/// Note [Hooks are registered once]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// A region may register a hook on a tensor from outside: its input, a parameter. When the region
/// is run again, the hook of forward is still there, and a second one would change the gradient
/// twice. So registrations go through the listeners, and a recompute refuses those on tensors that
/// it did not make. Hooks on its own tensors are registered: a backward call inside the region runs
/// them.
///
/// Tensor::register_hook and retain_grad are calls of LibTorch's VariableHooksInterface, of which
/// there is one per process. Ours also notes what data() returns, and passes all others on.
void intercept_tensor_hooks();

}  // namespace reprise::detail
