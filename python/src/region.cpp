// reprise.checkpoint(): a Python call as a region.
#include "body.h"
#include "errors.h"
#include "module.h"
#include "options.h"

#include <reprise/checkpoint.h>
#include <reprise/detail/planned_region.h>
#include <reprise/detail/region.h>

#include <optional>
#include <utility>
#include <vector>

namespace reprise::python {
namespace {

/// Of a context_fn; null: none.
struct Contexts {
  std::shared_ptr<Context> forward;
  std::shared_ptr<Context> recompute;

  py::object run(const Call& call) const {
    try {
      return call.run();
    } catch (const python_error& error) {
      if (forward) {
        forward->fail(error);
      }
      throw;
    }
  }
  void check_exit() const {
    if (forward) {
      forward->check_exit();
    }
  }
};

/// The call as a region, with its result.
py::object record(const Call& call,
                  const CheckpointOptions& options,
                  const Contexts& contexts,
                  py::object on_error) {
  py::object result;
  try {
    std::vector<at::Tensor> inputs;
    auto body = std::make_unique<PyBody>(call, std::move(on_error), contexts.recompute, inputs);
    detail::RecordingScope scope(options, std::move(body), std::move(inputs));
    result = contexts.run(call);
    scope.complete();
  } catch (...) {
    contexts.check_exit();
    throw;
  }
  contexts.check_exit();
  return result;
}

py::object run_planned(const Call& call, const CheckpointOptions& options, py::object on_error) {
  std::vector<at::Tensor> inputs = tensors_in(call.arguments);
  const auto keywords = tensors_in(call.keywords);
  inputs.insert(inputs.end(), keywords.begin(), keywords.end());
  detail::PlannedRegion region(options, std::exchange(inputs, {}));
  auto result =
      region.options() ? record(call, *region.options(), {}, std::move(on_error)) : call.run();
  region.complete();
  return result;
}

py::object run_reentrant(const Call& call, const CheckpointOptions& options, py::object on_error) {
  std::vector<at::Tensor> inputs;
  auto body = std::make_unique<PyBody>(call, std::move(on_error), nullptr, inputs);
  ArgumentTree tree;
  const auto forward = [&] {
    const auto result = call.run();
    std::vector<at::Tensor> outputs;
    tree = ArgumentTree(result, outputs);
    return outputs;
  };
  const auto outputs = detail::run_reentrant(options, std::move(body), std::move(inputs), forward);
  size_t next = 0;
  return tree.make(outputs, next);
}

/// `context_managers`: None, or the context managers of forward and of recomputes.
py::object checkpoint(const CheckpointOptions& asked,
                      py::object function,
                      py::tuple arguments,
                      py::dict keywords,
                      const py::object& context_managers,
                      py::object on_error) {
  const Call call(std::move(function), std::move(arguments), std::move(keywords));
  if (!detail::records_gradients()) {
    return call.run();
  }
  std::optional<CheckpointOptions> with_contexts;
  Contexts contexts;
  if (!context_managers.is_none()) {
    const auto pair = py::tuple(context_managers);
    contexts = {std::make_shared<Context>(pair[0], Context::Exit::Checked),
                std::make_shared<Context>(pair[1], Context::Exit::Unraisable)};
    with_contexts = asked;
    with_contexts->forward_scope = scope_of(contexts.forward);
    with_contexts->recompute_scope = scope_of(contexts.recompute);
  }
  const CheckpointOptions& options = with_contexts ? *with_contexts : asked;
  if (detail::has_region_planner()) {
    return run_planned(call, options, std::move(on_error));
  }
  return options.use_reentrant ? run_reentrant(call, options, std::move(on_error))
                               : record(call, options, contexts, std::move(on_error));
}

/// For `with`: an EarlyStopGuard.
class EarlyStopScope {
 public:
  explicit EarlyStopScope(bool enabled) : enabled_(enabled) {}
  void enter() { guard_.emplace(enabled_); }
  void exit(const py::args& /*exception*/) { guard_.reset(); }

 private:
  const bool enabled_;
  std::optional<EarlyStopGuard> guard_;
};

}  // namespace

void add_regions(py::module_& module) {
  module.def("checkpoint", &checkpoint);
  module.def("is_recomputing", &is_recomputing);
  module.def("describe", &describe);
  py::class_<EarlyStopScope>(module, "EarlyStopScope")
      .def(py::init<bool>())
      .def("__enter__", &EarlyStopScope::enter)
      .def("__exit__", &EarlyStopScope::exit);
}

}  // namespace reprise::python
