// Note [How saved tensors are intercepted]
// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
// LibTorch's stack of saved-tensor hooks can only hold Python objects. In plain C++ the only entry
// point is the virtual Engine::get_default_saved_variable_hooks(), which is called for every tensor
// that autograd saves. We install a subclass that returns the top of our own stack. The
// alternative, a Python interpreter in every process, is what this library exists to avoid.
#include "checkpoint/engine.h"

#include "checkpoint/frame.h"
#include "checkpoint/hot_thread_local.h"
#include "checkpoint/loaded_torch.h"
#include "checkpoint/ops/op_observer.h"
#include "checkpoint/ops/tensor_hooks.h"
#include "checkpoint/state/write_listener.h"
#include "checkpoint/weak_node.h"

#include <reprise/checkpoint.h>

#include <c10/util/Type.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace reprise::detail {
namespace {

using torch::autograd::Engine;
using torch::autograd::GraphTask;

REPRISE_HOT_THREAD_LOCAL HookSource* hook_source = nullptr;
thread_local int hook_depth = 0;  // sources on this thread's stack
REPRISE_HOT_THREAD_LOCAL SaveCounter* save_counter = nullptr;

// Graph task ids start at 0, but key 0 means "no backward call". Group keys are far above.
constexpr TaskKey kFirstGroupKey = TaskKey{1} << 62;
TaskKey key_of(uint64_t graph_task_id) {
  return graph_task_id + 1;
}

// The group that was made last on this thread. It is active until it is destroyed, on whatever
// thread, so the registry knows.
thread_local TaskKey active_group = 0;

/// The frames that hold recomputed tensors for each running task, the open groups, and the tasks of
/// each. A group may be destroyed on any thread, also while a task of it runs: from then on the
/// task stands for itself.
class TaskRegistry {
 public:
  void open_group(TaskKey group) {
    const std::scoped_lock lock(mutex_);
    open_groups_.insert(group);
  }

  bool is_open(TaskKey group) {
    const std::scoped_lock lock(mutex_);
    return open_groups_.contains(group);
  }

  void join_group(TaskKey task, TaskKey group) {
    const std::scoped_lock lock(mutex_);
    if (open_groups_.contains(group)) {
      group_of_[task] = group;
      has_groups_.store(true, std::memory_order_relaxed);
    }
  }

  TaskKey group_or_self(TaskKey task) {
    if (!has_groups_.load(std::memory_order_relaxed)) {
      return task;
    }
    const std::scoped_lock lock(mutex_);
    const auto found = group_of_.find(task);
    return found == group_of_.end() ? task : found->second;
  }

  /// `running`: the backward call that has recomputed the frame for `task`, itself or its group.
  void add(TaskKey task, TaskKey running, std::weak_ptr<Frame> frame) {
    const std::scoped_lock lock(mutex_);
    const bool has_ended = task >= kFirstGroupKey && !open_groups_.contains(task);
    frames_[has_ended ? running : task].push_back({task, std::move(frame)});
  }

  void end(TaskKey task) {
    std::vector<Held> frames;
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = frames_.find(task); found != frames_.end()) {
        frames = std::move(found->second);
        frames_.erase(found);
      }
      group_of_.erase(task);
      if (open_groups_.erase(task) > 0) {
        std::erase_if(group_of_, [task](const auto& member) { return member.second == task; });
      }
      has_groups_.store(!group_of_.empty(), std::memory_order_relaxed);
    }
    for (const auto& held : frames) {
      if (const auto frame = held.frame.lock()) {
        frame->forget(held.task);
      }
    }
  }

 private:
  struct Held {
    TaskKey task;  // for which the frame was recomputed
    std::weak_ptr<Frame> frame;
  };
  std::mutex mutex_;
  std::atomic<bool> has_groups_{false};
  std::unordered_map<TaskKey, std::vector<Held>> frames_;
  std::unordered_map<TaskKey, TaskKey> group_of_;
  std::unordered_set<TaskKey> open_groups_;
};

TaskRegistry& registry() {
  static TaskRegistry instance;
  return instance;
}

/// The backward call that Engine::execute is starting on this thread. Set in
/// execute_with_graph_task, where its id is known.
thread_local TaskKey* started_task = nullptr;

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
    const HookLimitGuard hooks(notify_backward(roots, accumulate_grad));
    // See Note [A backward call inside a region].
    const HookSourceGuard unhooked(nullptr);
    std::optional<OpObserverGuard> unobserved;
    if (OpObserverGuard::has_observer()) {
      unobserved.emplace(nullptr);
    }
    TaskEnd task_end;
    return Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<GraphTask>& graph_task,
      NodePtr graph_root,
      torch::autograd::InputBuffer&& input_buffer) override {
    const TaskKey key = key_of(graph_task->id_);
    if (started_task != nullptr && *started_task == 0) {
      *started_task = key;
    }
    if (active_group != 0) {
      registry().join_group(key, active_group);
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
        registry().end(key);
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

/// Installed when this library is loaded, so that all backward calls run on the same engine. An
/// engine other than LibTorch's own is left in place: require_engine() reports it.
const bool installed_at_load = [] {
  if (&Engine::get_default_engine() == &Engine::get_base_engine()) {
    torch::autograd::set_default_engine_stub(&checkpoint_engine);
    intercept_tensor_hooks();
  }
  return true;
}();

}  // namespace

HookSourceGuard::HookSourceGuard(HookSource* source)
    : previous_(std::exchange(hook_source, source)) {
  ++hook_depth;
}

HookSourceGuard::~HookSourceGuard() {
  --hook_depth;
  hook_source = previous_;
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
  if (&engine == &checkpoint_engine()) [[likely]] {
    return;
  }
  throw CheckpointError(c10::str(
      "[reprise] another autograd engine is installed (",
      c10::demangle(typeid(engine).name()),
      "), so saved tensors cannot be intercepted and checkpointing would have no effect. Reprise "
      "needs LibTorch's own engine: do not load it into a Python process, and install no other "
      "engine."));
}

TaskKey current_task() {
  const int id = torch::autograd::get_current_graph_task_id();
  return id < 0 ? 0 : registry().group_or_self(key_of(static_cast<uint64_t>(id)));
}

void release_at_task_end(TaskKey task, std::weak_ptr<Frame> frame) {
  const int id = torch::autograd::get_current_graph_task_id();
  registry().add(task, id < 0 ? task : key_of(static_cast<uint64_t>(id)), std::move(frame));
}

}  // namespace reprise::detail

namespace reprise {

GraphExecGroup::GraphExecGroup() {
  static std::atomic<uint64_t> next{detail::kFirstGroupKey};
  TORCH_CHECK(detail::active_group == 0 || !detail::registry().is_open(detail::active_group),
              "[reprise] a GraphExecGroup is already active on this thread; groups do not nest.");
  id_ = next++;
  detail::registry().open_group(id_);
  detail::active_group = id_;
}

GraphExecGroup::~GraphExecGroup() {
  detail::registry().end(id_);
}

}  // namespace reprise
