#include <reprise/modules.h>

#include <c10/util/Type.h>
#include <torch/nn/modules/container/moduledict.h>
#include <torch/nn/modules/container/modulelist.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

namespace reprise {
namespace detail {
namespace {

struct Mark {
  std::weak_ptr<const torch::nn::Module> module;
  std::shared_ptr<const CheckpointOptions> options;
  bool was_called = false;
};

/// Marks are stored outside of the modules: a buffer or a child would show up in saved state and in
/// copies.
class Marks {
 public:
  void set(const std::shared_ptr<torch::nn::Module>& module, CheckpointOptions options) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(marks_, [](const auto& entry) { return entry.second.module.expired(); });
    marks_[module.get()] = {module, std::make_shared<const CheckpointOptions>(std::move(options))};
    has_any_.store(true, std::memory_order_release);
  }

  bool remove(const torch::nn::Module* module) {
    const std::scoped_lock lock(mutex_);
    return marks_.erase(module) > 0;
  }

  std::shared_ptr<const CheckpointOptions> call(const torch::nn::Module* module) {
    if (!has_any_.load(std::memory_order_acquire)) {
      return nullptr;
    }
    const std::scoped_lock lock(mutex_);
    Mark* mark = find(module);
    if (mark == nullptr) {
      return nullptr;
    }
    mark->was_called = true;
    return mark->options;
  }

  bool is_uncalled(const torch::nn::Module* module) {
    const std::scoped_lock lock(mutex_);
    const Mark* mark = find(module);
    return mark != nullptr && !mark->was_called;
  }

 private:
  /// A new module may have the address of one that was freed.
  Mark* find(const torch::nn::Module* module) {
    const auto found = marks_.find(module);
    return found == marks_.end() || found->second.module.expired() ? nullptr : &found->second;
  }

  std::mutex mutex_;
  std::atomic<bool> has_any_{false};
  std::unordered_map<const torch::nn::Module*, Mark> marks_;
};

Marks& marks() {
  static Marks instance;
  return instance;
}

std::string type_of(const torch::nn::Module& module) {
  return c10::demangle(typeid(module).name());
}

/// Replaces a child of a Sequential in its list of handles. See Note [Wrapped children of a
/// Sequential].
class CheckpointedChild final : public torch::nn::Module {
 public:
  CheckpointedChild(torch::nn::AnyModule child, CheckpointOptions options)
      : child_(std::move(child)), options_(std::move(options)) {}

  at::Tensor forward(at::Tensor input) {
    auto run = [child = child_](const at::Tensor& x) mutable {
      auto result = child.any_forward(x);
      auto* tensor = result.try_get<at::Tensor>();
      TORCH_CHECK(tensor != nullptr,
                  "[reprise] ",
                  type_of(*child.ptr()),
                  " is a checkpointed child of a Sequential, so it must map one tensor to one "
                  "tensor, but it returned ",
                  c10::demangle(result.type_info().name()),
                  ". Leave it out, or checkpoint inside its forward.");
      return *tensor;
    };
    return checkpoint(options_, run, std::move(input));
  }

  const torch::nn::AnyModule& child() const { return child_; }
  const CheckpointOptions& options() const { return options_; }

 private:
  torch::nn::AnyModule child_;
  CheckpointOptions options_;
};

}  // namespace
}  // namespace detail
}  // namespace reprise

/// Note [Wrapped children of a Sequential]
/// ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
/// A Sequential registers each child under its name and calls it through a type-erased handle. Only
/// the handle is replaced, so parameters and names do not change. ptr() of the new handle is still
/// the child itself: Sequential::clone() registers ptr() of the cloned handle with the copy, and a
/// wrapper without parameters there would give a model without parameters.
template <>
struct torch::nn::AnyModuleHolder<reprise::detail::CheckpointedChild, at::Tensor> final
    : torch::nn::AnyModulePlaceholder {
  using Child = reprise::detail::CheckpointedChild;

  explicit AnyModuleHolder(std::shared_ptr<Child>&& wrapper)
      : AnyModulePlaceholder(typeid(Child)), module(std::move(wrapper)) {}

  AnyValue forward(std::vector<AnyValue>&& arguments) override {
    auto* input = arguments.size() == 1 ? arguments[0].try_get<at::Tensor>() : nullptr;
    TORCH_CHECK(input != nullptr,
                "[reprise] ",
                reprise::detail::type_of(*ptr()),
                " is a checkpointed child of a Sequential, so it must map one tensor to one "
                "tensor, but it got ",
                arguments.size() == 1 ? c10::demangle(arguments[0].type_info().name())
                                      : c10::str(arguments.size(), " arguments"),
                ". Leave it out, or checkpoint inside its forward.");
    return AnyValue(module->forward(std::move(*input)));
  }

  std::shared_ptr<Module> ptr() override { return module->child().ptr(); }
  std::unique_ptr<AnyModulePlaceholder> copy() const override {
    return std::make_unique<AnyModuleHolder>(*this);
  }
  std::unique_ptr<AnyModulePlaceholder> clone_module(std::optional<Device> device) const override {
    return std::make_unique<AnyModuleHolder>(
        std::make_shared<Child>(module->child().clone(device), module->options()));
  }

  std::shared_ptr<Child> module;  // where AnyModule::get looks
};

namespace reprise {
namespace detail {
namespace {

CheckpointOptions named(CheckpointOptions options, const std::string& path) {
  if (options.name.empty()) {
    options.name = path;
  }
  return options;
}

/// The registration of a child with a parent. A module may have several parents.
struct Edge {
  torch::nn::Module& parent;
  const std::string& path;
  const std::shared_ptr<torch::nn::Module>& child;
  bool is_first;  // the first edge to this child
  /// The module whose code calls the child: the nearest ancestor that is not a container. Null if
  /// there is none, so that the program itself calls it.
  const torch::nn::Module* caller;
};

bool is_container(const torch::nn::Module& module) {
  return dynamic_cast<const torch::nn::SequentialImpl*>(&module) != nullptr ||
         dynamic_cast<const torch::nn::ModuleListImpl*>(&module) != nullptr ||
         dynamic_cast<const torch::nn::ModuleDictImpl*>(&module) != nullptr;
}

class ModuleWalk {
 public:
  explicit ModuleWalk(torch::nn::Module& model) : model_(model), seen_{&model} {}

  /// Calls visit(edge) once for every pair of parent and child, parents first.
  template <class Visit>
  void run(const Visit& visit) {
    descend(model_, "", nullptr, visit);
  }

 private:
  template <class Visit>
  void descend(torch::nn::Module& parent,
               const std::string& prefix,
               const torch::nn::Module* caller_of_parent,
               const Visit& visit) {
    const auto* caller = is_container(parent) ? caller_of_parent : &parent;
    for (const auto& item : parent.named_children()) {
      const auto& child = item.value();
      if (!child || !edges_.insert({&parent, child.get()}).second) {
        continue;
      }
      const auto path = prefix.empty() ? item.key() : prefix + "." + item.key();
      const bool is_first = seen_.insert(child.get()).second;
      visit(Edge{parent, path, child, is_first, caller});
      if (is_first) {
        descend(*child, path, caller, visit);
      }
    }
  }

  torch::nn::Module& model_;
  std::set<const torch::nn::Module*> seen_;
  std::set<std::pair<const torch::nn::Module*, const torch::nn::Module*>> edges_;
};

/// The handles through which the parent calls the child; empty if it is not a Sequential.
std::vector<torch::nn::AnyModule*> handles_of(const Edge& edge) {
  std::vector<torch::nn::AnyModule*> handles;
  if (auto* sequential = dynamic_cast<torch::nn::SequentialImpl*>(&edge.parent)) {
    for (auto& handle : *sequential) {
      if (handle.ptr() == edge.child) {
        handles.push_back(&handle);
      }
    }
  }
  return handles;
}

bool is_wrapped(const torch::nn::AnyModule& handle) {
  return handle.type_info() == typeid(CheckpointedChild);
}

/// The original handle.
torch::nn::AnyModule unwrapped(const torch::nn::AnyModule& handle) {
  return is_wrapped(handle) ? handle.get<CheckpointedChild>().child() : handle;
}

/// LibTorch's own modules call their children directly, so marking them would have no effect.
void check_caller(const Edge& edge) {
  if (edge.caller != nullptr && type_of(*edge.caller).starts_with("torch::nn::")) {
    throw CheckpointError(
        c10::str("[reprise] apply_activation_checkpointing cannot affect ",
                 edge.path,
                 " (",
                 type_of(*edge.child),
                 "): ",
                 type_of(*edge.caller),
                 " calls it, which is LibTorch's own code and does not use reprise::call. "
                 "Checkpoint that module as a whole, or write the loop over its layers yourself."));
  }
}

/// What apply_activation_checkpointing does to a model, prepared before the first change.
class Changes {
 public:
  void add(const Edge& edge, CheckpointOptions options) {
    const auto handles = handles_of(edge);
    for (auto* handle : handles) {
      wrapped_.emplace_back(
          handle,
          torch::nn::AnyModule(std::make_shared<CheckpointedChild>(unwrapped(*handle), options)));
    }
    if (handles.empty() && edge.is_first) {
      check_caller(edge);
      marked_.emplace_back(edge.child, std::move(options));
    }
  }

  void apply() {
    for (auto& [handle, wrapper] : wrapped_) {
      *handle = std::move(wrapper);
    }
    for (auto& [module, options] : marked_) {
      marks().set(module, std::move(options));
    }
  }

 private:
  std::vector<std::pair<torch::nn::AnyModule*, torch::nn::AnyModule>> wrapped_;
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, CheckpointOptions>> marked_;
};

[[noreturn]] void refuse_none(const std::set<std::string>& types) {
  std::string list;
  for (const auto& type : types) {
    list += (list.empty() ? "" : ", ") + type;
  }
  throw CheckpointError(
      c10::str("[reprise] apply_activation_checkpointing matched no module, so nothing would be "
               "checkpointed. Types in this model: ",
               list.empty() ? "none (it has no submodules)" : list,
               "."));
}

}  // namespace

std::shared_ptr<const CheckpointOptions> mark_of(const torch::nn::Module& module) {
  return marks().call(&module);
}

}  // namespace detail

size_t apply_activation_checkpointing(
    torch::nn::Module& model,
    const CheckpointOptions& options,
    const std::function<bool(const torch::nn::Module&)>& is_region) {
  // Everything that may throw comes first, so that a model is changed as a whole or not at all.
  std::map<const torch::nn::Module*, bool> matches;
  std::set<std::string> types;
  detail::Changes changes;
  detail::ModuleWalk(model).run([&](const detail::Edge& edge) {
    types.insert(detail::type_of(*edge.child));
    auto match = matches.find(edge.child.get());
    if (match == matches.end()) {
      match = matches.emplace(edge.child.get(), is_region(*edge.child)).first;
    }
    if (match->second) {
      changes.add(edge, detail::named(options, edge.path));
    }
  });
  const auto affected =
      std::count_if(matches.begin(), matches.end(), [](const auto& match) { return match.second; });
  if (affected == 0) {
    detail::refuse_none(types);
  }
  changes.apply();
  return static_cast<size_t>(affected);
}

size_t remove_activation_checkpointing(torch::nn::Module& model) {
  std::set<const torch::nn::Module*> affected;
  detail::ModuleWalk(model).run([&](const detail::Edge& edge) {
    for (auto* handle : detail::handles_of(edge)) {
      if (detail::is_wrapped(*handle)) {
        *handle = detail::unwrapped(*handle);
        affected.insert(edge.child.get());
      }
    }
    if (detail::marks().remove(edge.child.get())) {
      affected.insert(edge.child.get());
    }
  });
  return affected.size();
}

std::vector<std::string> uncalled_marks(torch::nn::Module& model) {
  std::vector<std::string> paths;
  detail::ModuleWalk(model).run([&](const detail::Edge& edge) {
    if (edge.is_first && detail::marks().is_uncalled(edge.child.get())) {
      paths.push_back(edge.path);
    }
  });
  return paths;
}

at::Tensor checkpoint_sequential(const CheckpointOptions& options,
                                 const torch::nn::Sequential& modules,
                                 size_t segments,
                                 at::Tensor input) {
  std::vector<torch::nn::AnyModule> children(modules->begin(), modules->end());
  std::vector<std::function<at::Tensor(at::Tensor)>> functions;
  functions.reserve(children.size());
  for (auto& child : children) {
    functions.emplace_back(
        [child](at::Tensor x) mutable { return child.forward<at::Tensor>(std::move(x)); });
  }
  return checkpoint_sequential(options, std::move(functions), segments, std::move(input));
}

}  // namespace reprise
