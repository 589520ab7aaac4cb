// The seam between the engine and a language that hosts LibTorch and has an autograd engine of its
// own: Python. What the engine cannot know by itself stands here; frames, recompute, replay and
// logs are the same. Not part of the public interface.
#pragma once

#include <reprise/detail/region.h>
#include <reprise/export.h>

#include <c10/core/DispatchKeySet.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace reprise::detail {

/// Unwinds user code once all needed tensors have been recomputed. Not derived from std::exception,
/// so that only a catch (...) can swallow it, which is detected.
struct REPRISE_API EarlyStop {
  EarlyStop();
  EarlyStop(const EarlyStop&);
  EarlyStop& operator=(const EarlyStop&) = delete;
  virtual ~EarlyStop();
};

/// Implemented once per language, in its extension module.
class REPRISE_API HostLanguage {
 public:
  HostLanguage(const HostLanguage&) = delete;
  HostLanguage& operator=(const HostLanguage&) = delete;

  /// Throws an exception that is derived from EarlyStop and also unwinds frames of the language.
  /// Where it has crossed such frames, RegionBody::run throws an EarlyStop again.
  [[noreturn]] virtual void stop_early() const = 0;
  /// Rethrows the current exception, which has ended a recompute of `body`, as what the language's
  /// programs expect. `label` names the region.
  [[noreturn]] virtual void rethrow(const RegionBody& body, const std::string& label) const = 0;
  /// This thread is about to wait for another one, which may need the language's global lock.
  /// Returns what resume() needs when it has waited; null: there was no lock to give up.
  virtual void* pause() const = 0;
  virtual void resume(void* paused) const = 0;
  /// The group that the running backward call belongs to, made by open_graph_exec_group().
  virtual std::optional<uint64_t> graph_exec_group() const = 0;
  /// An object that, when it is destroyed, leaves the node with the hooks of the language that it
  /// has now. Null if it has none.
  virtual std::shared_ptr<void> keep_hooks(torch::autograd::Node& node) const = 0;
  /// A place in a node's metadata, which the language's engine makes, for what dies with the node.
  virtual std::shared_ptr<void>& attachment(torch::autograd::AnomalyMetadata& metadata) const = 0;

 protected:
  HostLanguage();
  ~HostLanguage() = default;
};

/// From now on regions work in this process, whose default engine is the language's: saved tensors
/// are intercepted in front of it. Call it once, when the extension module is loaded.
REPRISE_API void enter_host(const HostLanguage& language);

/// The language that hosts this process; null in C++.
const HostLanguage* host_language();

/// What GraphExecGroup opens and ends, without its thread.
REPRISE_API uint64_t open_graph_exec_group();
REPRISE_API void end_graph_exec_group(uint64_t group);

/// For hooks that programs add to tensors through the language, beside LibTorch's register_hook.
/// Adds one by `add`, which returns its number, unless this is a recompute and forward has added
/// it. Returns the number that it has. See Note [Hooks are registered once].
REPRISE_API unsigned add_host_hook(const at::Tensor& tensor, const std::function<unsigned()>& add);
/// Its place among hooks and backward calls, and whether a hook of that place may run now: see Note
/// [Hooks of a backward call inside].
REPRISE_API uint64_t new_host_hook();
REPRISE_API bool may_run_host_hook(uint64_t place);

/// The regions that this thread is in do not stop early: the program has set what it will reset
/// before they end, such as a module's mode.
REPRISE_API void run_regions_to_end();
/// The dispatch keys through which regions observe operators. The language may dispatch operators
/// of its own by keys.
REPRISE_API c10::DispatchKeySet observer_keys();

/// Around a backward call of the host's engine, which calls ours only for what it does not do
/// itself. `roots` are its roots; `accumulates`: into leaves.
class REPRISE_API BackwardScope {
 public:
  BackwardScope(const std::vector<torch::autograd::Edge>& roots, bool accumulates);
  ~BackwardScope();
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;

  /// Whether this thread is inside a region, so that a backward call needs a scope.
  static bool is_needed();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// In its scope this thread is outside of all regions: nothing is seen, saved elsewhere or undone.
/// For what the language does on its own in between, such as compiling a function.
class REPRISE_API OutsideScope {
 public:
  OutsideScope();
  ~OutsideScope();
  OutsideScope(const OutsideScope&) = delete;
  OutsideScope& operator=(const OutsideScope&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace reprise::detail
