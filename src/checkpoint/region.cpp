#include "checkpoint/region.h"

#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/torch_versions.h"

#include <reprise/checkpoint.h>
#include <reprise/detail/host_language.h>

#include <ATen/SavedTensorHooks.h>
#include <c10/util/Type.h>

#include <cxxabi.h>
#include <exception>
#include <utility>

namespace reprise {

CheckpointError::CheckpointError(std::string message) : c10::Error(std::move(message)) {}

namespace detail {

RegionBody::RegionBody() = default;
RegionBody::~RegionBody() = default;

std::string RegionBody::description() const {
  return c10::demangle(callable_type().name());
}

Region::Region(const CheckpointOptions& region_options,
               std::unique_ptr<RegionBody> region_body,
               const std::vector<at::Tensor>& region_inputs)
    : options(region_options),
      body(std::move(region_body)),
      callable(body->callable_type()),
      inputs(region_inputs),
      listed({}) {
  check_options();
  check_capturable();
  check_start(region_inputs);
  if (options.preserve_rng_state) {
    draws.emplace();
    listed = RngState(options.generators);
  }
}

void Region::check_real(const at::Tensor& tensor, std::string_view what) const {
  if (is_fake(tensor)) {
    throw CheckpointError(c10::str(
        "[reprise] ",
        label(),
        ": ",
        what,
        " is a fake tensor, which has sizes and no content. A region runs on real tensors; "
        "to try shapes, use tensors on the device \"meta\"."));
  }
}

void Region::check_start(const std::vector<at::Tensor>& region_inputs) const {
  if (is_fake_mode_on()) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 label(),
                 " runs where this thread makes fake tensors (FakeTensorModeTLS), "
                 "which regions cannot hold. Reset that mode first."));
  }
  const auto& why_not = at::SavedTensorDefaultHooks::get_disabled_error_message();
  if (why_not && !options.use_reentrant) {
    throw CheckpointError(c10::str("[reprise] ",
                                   label(),
                                   " needs hooks on saved tensors, which this thread has disabled "
                                   "(SavedTensorDefaultHooks::disable): ",
                                   *why_not));
  }
  using c10::DispatchKey;
  const auto included = c10::impl::tls_local_dispatch_key_set().included_;
  if (included.has(DispatchKey::FuncTorchDynamicLayerFrontMode)) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 label(),
                 " begins inside a level of functorch (vmap), which may have ended "
                 "when the region is recomputed. Begin and end the level inside "
                 "the region."));
  }
  for (size_t i = 0; i < region_inputs.size(); ++i) {
    if (is_fake(region_inputs[i])) {
      check_real(region_inputs[i], c10::str("input tensor #", i));
    }
  }
}

void Region::check_capturable() const {
  if (options.determinism_check == DeterminismCheck::Values && is_capturing_graph()) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 label(),
                 " is captured into a CUDA graph, where DeterminismCheck::Values cannot read "
                 "values. Use DeterminismCheck::Metadata."));
  }
}

void Region::check_options() const {
  const auto refuse = [this](const char* why) {
    throw CheckpointError(c10::str("[reprise] ", label(), ": ", why));
  };
  if (options.allow_lossy && !options.policy) {
    refuse("allow_lossy has no effect without a policy that compresses.");
  }
  if (options.allow_lossy && options.determinism_check == DeterminismCheck::Values) {
    refuse(
        "allow_lossy changes values, which DeterminismCheck::Values would report. "
        "Use DeterminismCheck::Metadata.");
  }
  if (!options.generators.empty() && !options.preserve_rng_state) {
    refuse("generators have no effect with preserve_rng_state = false. Leave one of the two out.");
  }
  for (const auto& generator : options.generators) {
    if (!generator.defined()) {
      refuse("generators contains an undefined at::Generator, which has no state to restore.");
    }
  }
  if (!options.early_stop && options.use_reentrant) {
    refuse("early_stop = false has no effect in a reentrant region, which never stops early.");
  }
  if (options.offload_inputs && options.use_reentrant) {
    refuse("offload_inputs has no effect in a reentrant region. Use use_reentrant = false.");
  }
  if (options.offload_inputs && inputs.are_hooked()) {
    refuse(
        "offload_inputs has no effect inside another region, which owns the inputs. Set it for "
        "the outermost region.");
  }
}

void Region::check_lossy(bool was_lossy) const {
  if (options.allow_lossy && !was_lossy) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 label(),
                 ": allow_lossy had no effect, because policy ",
                 options.policy->describe(),
                 " compressed no floating-point result. Leave it off; masks are compressed "
                 "exactly without it."));
  }
}

void Region::forget_kept(const std::function<bool(const c10::StorageImpl*)>& is_kept) {
  write_log.finish(is_kept);
  // Inputs are compared by themselves; where they were offloaded, they are other tensors.
  reads.finish([&](const auto* storage) { return storage != nullptr && is_kept(storage); },
               [&](const auto* storage) { return storage != nullptr && inputs.are_in(storage); });
}

void Region::complete_forward(bool will_run_again,
                              const std::function<bool(const c10::StorageImpl*)>& is_kept) {
  forget_kept(is_kept);
  tensor_log.finish();
  if (draws) {
    draws->finish();
  }
  if (!will_run_again) {
    return;
  }
  inputs.take_written(write_log, tensor_log);
  const bool loses_history = options.use_reentrant && write_log.has_foreign_history();
  const auto is_undone = [&](const c10::StorageImpl* storage) {
    return !loses_history && write_log.has(storage);
  };
  if (const auto modified = inputs.first_modified(is_undone)) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 label(),
                 " changed its input tensor #",
                 *modified,
                 " in place, so it could not be run again from the same input. Clone the "
                 "input first, or use the out-of-place operator."));
  }
  // A reentrant region's forward gives no history, so that gradients would be lost.
  if (loses_history) {
    throw CheckpointError(
        c10::str("[reprise] ",
                 label(),
                 " changed a captured tensor in place that has a history (a grad_fn), which a "
                 "reentrant region cannot. Return the new value, or use use_reentrant = false."));
  }
}

void Region::check_globals() const {
  const ProcessGlobals now;
  if (now == globals) [[likely]] {
    return;
  }
  throw CheckpointError(
      c10::str("[reprise] ",
               label(),
               " cannot be recomputed: process-wide settings changed since its forward (",
               globals.difference(now),
               "). Set them once, before forward."));
}

void Region::check_not_abandoned() const {
  if (body == nullptr) {
    throw CheckpointError(c10::str("[reprise] ",
                                   label(),
                                   " failed, so tensors that left it before the failure have no "
                                   "gradient."));
  }
}

void Region::check_inputs() const {
  if (const auto modified = inputs.first_modified()) {
    throw CheckpointError(c10::str("[reprise] input tensor #",
                                   *modified,
                                   " of ",
                                   label(),
                                   " was changed in place after the region used it, so the region "
                                   "cannot be recomputed. Change a clone instead, or move the "
                                   "in-place operation after backward."));
  }
}

void Region::check_reads(const ReadCheck& now) const {
  if (!now.unread_input().empty()) {
    throw CheckpointError(now.unread_input());
  }
  if (!now.difference().empty()) {
    throw CheckpointError(c10::str("[reprise] ",
                                   label(),
                                   " cannot be recomputed: ",
                                   now.difference(),
                                   ". Change it after backward, or change a clone."));
  }
}

void Region::check_write_again(const at::Tensor& target, WriteUndo& undo) const {
  // Results of operators belong to the recompute; so do gradients that a backward call inside it
  // has made.
  const bool is_other_tensor =
      target.is_leaf() && target.has_storage() && !tensor_log.has_gradients() &&
      !write_log.has_entry(target.storage().unsafeGetStorageImpl()) && reads.knows(target);
  if (undo.was_in_forward(target) && !is_other_tensor) {
    return;
  }
  throw CheckpointError(
      c10::str("[reprise] ",
               label(),
               " did different work when it was recomputed: it is about to change a tensor (",
               target.toString(),
               " ",
               target.sizes(),
               ") that it did not change in forward. The callable must do the same each time: look "
               "for branches on state that changed in between, such as whether a gradient is "
               "defined."));
}

std::unique_ptr<LiveRegionGuard> Region::enter_live() const {
  auto log = live.lock();
  return log == nullptr ? nullptr
                        : std::make_unique<LiveRegionGuard>(
                              std::move(log), label(), is_recomputing() ? "recompute" : "forward");
}

std::string Region::label() const {
  if (!options.name.empty()) {
    return "region \"" + options.name + "\"";
  }
  return "the region of " + (body ? body->description() : c10::demangle(callable.name()));
}

void rethrow_naming(const Region& region) {
  if (const auto* host = host_language(); host != nullptr && region.body != nullptr) {
    host->rethrow(*region.body, region.label());
  }
  try {
    throw;
  } catch (const CheckpointError&) {
    throw;
  } catch (c10::Error& error) {
    error.add_context("while recomputing " + region.label());
    throw;
  } catch (const std::exception& error) {
    std::throw_with_nested(CheckpointError(
        c10::str("[reprise] recomputing ", region.label(), " threw: ", error.what())));
  } catch (...) {
    const auto* type = abi::__cxa_current_exception_type();
    std::throw_with_nested(
        CheckpointError(c10::str("[reprise] recomputing ",
                                 region.label(),
                                 " threw an object of type ",
                                 type == nullptr ? "unknown" : c10::demangle(type->name()),
                                 ", which is not derived from std::exception")));
  }
}

}  // namespace detail
}  // namespace reprise
