// Note [How saved tensors are intercepted]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// LibTorch's stack of saved-tensor hooks can only hold Python objects. In plain C++ the only entry
// point is the virtual Engine::get_default_saved_variable_hooks(), which is called for every tensor
// that autograd saves. We install a subclass that returns the top of our own stack. The
// alternative, a Python interpreter in every process, is what this library exists to avoid.
//
// Where Python hosts LibTorch, its engine runs backward calls, and does not ask for another. Ours
// then stands in front of it: it answers for saved tensors, and passes everything else on. It does
// not see the end of a backward call, so it leaves a token in the call's graph task.
#include "checkpoint/engine.h"

#include "checkpoint/frame.h"
#include "checkpoint/hot_thread_local.h"
#include "checkpoint/loaded_torch.h"
#include "checkpoint/ops/engine_ops.h"
#include "checkpoint/ops/op_observer.h"
#include "checkpoint/ops/tensor_hooks.h"
#include "checkpoint/state/read_log.h"
#include "checkpoint/state/write_listener.h"
#include "checkpoint/task_registry.h"
#include "checkpoint/weak_node.h"

#include <reprise/checkpoint.h>
#include <reprise/detail/host_language.h>

#include <ATen/SavedTensorHooks.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <optional>
#include <utility>
#include <vector>

namespace reprise::detail {
namespace {

using torch::autograd::Engine;
using torch::autograd::GraphTask;

REPRISE_HOT_THREAD_LOCAL HookSource* hook_source = nullptr;
thread_local int hook_depth = 0;  // sources on this thread's stack
// Default hooks of the host language when the source was pushed: later ones take precedence.
thread_local size_t host_hooks_below = 0;
REPRISE_HOT_THREAD_LOCAL SaveCounter* save_counter = nullptr;

/// The backward call that Engine::execute is starting on this thread. Set in
/// execute_with_graph_task, where its id is known.
thread_local TaskKey* started_task = nullptr;

/// Note [Inner calls keep their graph]
/// A recompute repeats the backward calls of its region. Without retain_graph, a call would free
/// what it passes of a graph from outside, and could not be repeated. So it keeps it, and the graph
/// is freed when the program drops it.
bool keeps_graph(bool is_asked) {
  return is_asked || is_in_region();
}

/// Runs backward calls itself, in C++.
class CheckpointEngine final : public Engine {
 public:
  CheckpointEngine() = default;
  // Required by the base class: its threads must end before this part of the object is destroyed.
  ~CheckpointEngine() override { stop(); }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    SaveCounter::note_save();
    return hook_source == nullptr ? nullptr : hook_source->make_hooks();
  }

  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return make_node_metadata();
  }

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph,
                                         bool create_graph,
                                         bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    const BackwardScope scope(roots, accumulate_grad);
    TaskEnd task_end;
    return Engine::execute(
        roots, inputs, keeps_graph(keep_graph), create_graph, accumulate_grad, outputs);
  }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<GraphTask>& graph_task,
      NodePtr graph_root,
      torch::autograd::InputBuffer&& input_buffer) override {
    const TaskKey key = key_of(graph_task->id_);
    if (started_task != nullptr && *started_task == 0) {
      *started_task = key;
    }
    if (const TaskKey group = active_group(); group != 0) {
      TaskRegistry::instance().join_group(key, group);
    }
    return Engine::execute_with_graph_task(
        graph_task, std::move(graph_root), std::move(input_buffer));
  }

 private:
  /// Ends the task that was started in its scope, on return and on exceptions. Backward calls may
  /// be nested.
  struct TaskEnd {
    TaskEnd() : outer(std::exchange(started_task, &key)) {}
    ~TaskEnd() {
      started_task = outer;
      if (key != 0) {
        TaskRegistry::instance().end(key);
      }
    }
    TaskEnd(const TaskEnd&) = delete;
    TaskEnd& operator=(const TaskEnd&) = delete;

    TaskKey key = 0;
    TaskKey* outer;
  };
};

Engine& checkpoint_engine() {
  static CheckpointEngine engine;
  return engine;
}

/// In front of the engine of a language, which runs the backward calls.
class FrontEngine final : public Engine {
 public:
  explicit FrontEngine(Engine& host) : host_(host) {}
  ~FrontEngine() override { stop(); }

  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
    SaveCounter::note_save();
    if (hook_source != nullptr &&
        at::SavedTensorDefaultHooks::get_tls_state().stack.size() <= host_hooks_below) {
      return hook_source->make_hooks();
    }
    return host_.get_default_saved_variable_hooks();
  }

  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return host_.make_anomaly_metadata();
  }

#if REPRISE_NODE_CREATION_HOOKS
  std::vector<std::unique_ptr<torch::autograd::NodeCreationHook>> get_node_creation_hooks()
      override {
    return host_.get_node_creation_hooks();
  }
#endif

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph,
                                         bool create_graph,
                                         bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    const BackwardScope scope(roots, accumulate_grad);
    return host_.execute(
        roots, inputs, keeps_graph(keep_graph), create_graph, accumulate_grad, outputs);
  }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<GraphTask>& graph_task,
      NodePtr graph_root,
      torch::autograd::InputBuffer&& input_buffer) override {
    return host_.execute_with_graph_task(
        graph_task, std::move(graph_root), std::move(input_buffer));
  }

 private:
  Engine& host_;
};

const HostLanguage* host = nullptr;
Engine* front = nullptr;

Engine& front_engine() {
  return *front;
}

/// In a graph task of the host's engine: ends the task with the call, however that ends.
class TaskToken {
 public:
  explicit TaskToken(TaskKey task) : task_(task) {}
  ~TaskToken() { end(); }
  TaskToken(const TaskToken&) = delete;
  TaskToken& operator=(const TaskToken&) = delete;

  void end() {
    if (const TaskKey task = std::exchange(task_, 0); task != 0) {
      TaskRegistry::instance().end(task);
    }
  }

 private:
  TaskKey task_;
};

/// Installed when this library is loaded, so that all backward calls run on the same engine. An
/// engine other than LibTorch's own is left in place: require_engine() reports it.
const bool kInstalledAtLoad = [] {
  if (&Engine::get_default_engine() == &Engine::get_base_engine()) {
    torch::autograd::set_default_engine_stub(&checkpoint_engine);
    intercept_tensor_hooks();
  }
  return true;
}();

}  // namespace

HookSourceGuard::HookSourceGuard(HookSource* source)
    : previous_(std::exchange(hook_source, source)), host_hooks_(host_hooks_below) {
  ++hook_depth;
  if (host != nullptr) {
    host_hooks_below = at::SavedTensorDefaultHooks::get_tls_state().stack.size();
  }
}

HookSourceGuard::~HookSourceGuard() {
  --hook_depth;
  hook_source = previous_;
  host_hooks_below = host_hooks_;
}

/// See Note [A backward call inside a region].
struct BackwardScope::State {
  State(const torch::autograd::edge_list& roots, bool accumulates)
      : hooks(notify_backward(roots, accumulates)), unhooked(nullptr) {
    if (OpObserverGuard::has_observer()) {
      unobserved.emplace(nullptr);
    }
  }
  const HookLimitGuard hooks;
  const HookSourceGuard unhooked;
  std::optional<OpObserverGuard> unobserved;
};

BackwardScope::BackwardScope(const torch::autograd::edge_list& roots, bool accumulates)
    : state_(std::make_unique<State>(roots, accumulates)) {}

BackwardScope::~BackwardScope() = default;

void run_regions_to_end() {
  notify_run_to_end();
}

c10::DispatchKeySet observer_keys() {
  return kObserverKeys;
}

struct OutsideScope::State {
  State()
      : depth(hook_depth),
        unhooked(nullptr),
        unheard(nullptr, WriteListenerGuard::Others::Pause),
        unread(static_cast<ReadLog*>(nullptr)),
        unobserved(nullptr),
        unseen(kObserverKeys) {
    hook_depth = 0;
  }
  ~State() { hook_depth = depth + 1; }  // the guard takes one away
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  const int depth;
  const HookSourceGuard unhooked;
  const WriteListenerGuard unheard;
  const ReadGuard unread;
  const OpObserverGuard unobserved;
  const c10::impl::ExcludeDispatchKeyGuard unseen;
};

OutsideScope::OutsideScope() : state_(std::make_unique<State>()) {}

OutsideScope::~OutsideScope() = default;

bool BackwardScope::is_needed() {
  return hook_depth > 0 || has_write_listener() || OpObserverGuard::has_observer();
}

HostLanguage::HostLanguage() = default;

const HostLanguage* host_language() {
  return host;
}

void enter_host(const HostLanguage& language) {
  TORCH_CHECK(host == nullptr, "[reprise] this process has entered its host language already");
  auto& engine = Engine::get_default_engine();
  TORCH_CHECK(&engine != &checkpoint_engine(),
              "[reprise] Reprise was loaded before the language that hosts it: import torch first");
  // Never destroyed: tensors may be saved until the process ends.
  front = new FrontEngine(engine);  // allow: owning-new
  host = &language;
  torch::autograd::set_default_engine_stub(&front_engine);
  intercept_tensor_hooks();
}

SaveCounter::SaveCounter(Scope scope)
    : previous_(std::exchange(save_counter, this)),
      depth_(hook_depth + (scope == Scope::Region ? 1 : 0)),
      graph_task_(torch::autograd::get_current_graph_task_id()) {}

SaveCounter::~SaveCounter() {
  save_counter = previous_;
}

void SaveCounter::note_save() {
  if (save_counter != nullptr && save_counter->depth_ == hook_depth &&
      save_counter->graph_task_ == torch::autograd::get_current_graph_task_id()) {
    ++save_counter->count_;
  }
}

void require_engine() {
  [[maybe_unused]] static const bool is_checked = (require_one_torch(), true);
  auto& engine = Engine::get_default_engine();
  if (&engine == front || &engine == &checkpoint_engine()) [[likely]] {
    return;
  }
  throw CheckpointError(c10::str(
      "[reprise] another autograd engine is installed (",
      c10::demangle(typeid(engine).name()),
      "), so saved tensors cannot be intercepted and checkpointing would have no effect. Reprise "
      "needs LibTorch's own engine: install no other one. In a Python process, import the "
      "package reprise."));
}

TaskKey current_task() {
  if (host != nullptr) {
    if (const auto group = host->graph_exec_group()) {
      return *group;
    }
  }
  const int id = torch::autograd::get_current_graph_task_id();
  return id < 0 ? 0 : TaskRegistry::instance().group_or_self(key_of(static_cast<uint64_t>(id)));
}

void release_at_task_end(TaskKey task, std::weak_ptr<Frame> frame) {
  const int id = torch::autograd::get_current_graph_task_id();
  const TaskKey running = id < 0 ? task : key_of(static_cast<uint64_t>(id));
  const bool is_first = TaskRegistry::instance().add(task, running, std::move(frame));
  if (host != nullptr && is_first && id >= 0 && task == running) {
    Engine::get_default_engine().queue_callback(
        [token = std::make_shared<TaskToken>(task)] { token->end(); });
  }
}

}  // namespace reprise::detail
