// Python as the engine's host language.
#include "body.h"
#include "errors.h"
#include "hooks.h"
#include "module.h"
#include "wording.h"

#include <reprise/checkpoint.h>
#include <reprise/detail/host_language.h>

#include <c10/core/AutogradState.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_anomaly_mode.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace reprise::python {
namespace {

/// The number that the engine knows a torch.utils.checkpoint.GraphExecGroup by. A group ends when
/// its object dies.
class Groups {
 public:
  uint64_t number_of(PyObject* group) {
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = numbers_.find(group); found != numbers_.end()) {
        return found->second;
      }
    }
    const py::gil_scoped_acquire gil;
    const uint64_t number = detail::open_graph_exec_group();
    const py::cpp_function end([this, group](const py::handle& reference) {
      end_group(group);
      reference.dec_ref();
    });
    py::weakref(group, end).release();
    const std::scoped_lock lock(mutex_);
    numbers_[group] = number;
    return number;
  }

 private:
  void end_group(PyObject* group) {
    uint64_t number = 0;
    {
      const std::scoped_lock lock(mutex_);
      const auto found = numbers_.find(group);
      number = found->second;
      numbers_.erase(found);
    }
    detail::end_graph_exec_group(number);
  }

  std::mutex mutex_;  // held without waiting for anything
  std::map<PyObject*, uint64_t> numbers_;
};

class Python final : public detail::HostLanguage {
 public:
  [[noreturn]] void stop_early() const override {
    const py::gil_scoped_acquire gil;
    throw StopError(made_error(stop_type(), "the recompute of a region has all that it needs"));
  }

  [[noreturn]] void rethrow(const detail::RegionBody& body,
                            const std::string& label) const override {
    try {
      throw;
    } catch (const detail::EarlyStop&) {
      throw;  // of an enclosing region
    } catch (const python_error&) {
      throw;
    } catch (const CheckpointError& error) {
      const py::gil_scoped_acquire gil;
      const auto made = made_error(checkpoint_error_type(), worded(error.what_without_backtrace()));
      const auto* python_body = dynamic_cast<const PyBody*>(&body);
      if (python_body != nullptr && python_body->on_error() && !python_body->on_error().is_none()) {
        PyObject* result = PyObject_CallOneArg(python_body->on_error().ptr(), made.value);
        if (result == nullptr) {
          throw taken_error();
        }
        Py_DECREF(result);
      }
      throw made;
    } catch (c10::Error& error) {
      error.add_context("while recomputing " + label);
      throw;
    } catch (const std::exception& error) {
      const py::gil_scoped_acquire gil;
      throw made_error(checkpoint_error_type(),
                       "[reprise] recomputing " + label + " threw: " + error.what());
    }
  }

  void* pause() const override { return PyGILState_Check() == 1 ? PyEval_SaveThread() : nullptr; }
  void resume(void* paused) const override {
    PyEval_RestoreThread(static_cast<PyThreadState*>(paused));
  }

  std::optional<uint64_t> graph_exec_group() const override {
    const auto& group = c10::AutogradState::get_tls_state().get_graph_exec_group();
    if (!group) {
      return std::nullopt;
    }
    static auto* groups = new Groups();  // allow: owning-new
    return groups->number_of(group->ptr(getPyInterpreter()));
  }

  std::shared_ptr<void> keep_hooks(torch::autograd::Node& node) const override {
    return kept_hooks(node);
  }

  std::shared_ptr<void>& attachment(torch::autograd::AnomalyMetadata& metadata) const override {
    static const char* const kKey = "reprise";
    using Attachment = std::shared_ptr<void>;
    const py::gil_scoped_acquire gil;
    // Of LibTorch's Python engine.
    const py::dict dict = py::reinterpret_borrow<py::dict>(
        static_cast<torch::autograd::PyAnomalyMetadata&>(metadata).dict());
    if (!dict.contains(kKey)) {
      dict[kKey] = py::capsule(new Attachment(), [](void* attached) {  // allow: owning-new
        delete static_cast<Attachment*>(attached);                     // allow: owning-new
      });
    }
    return *static_cast<Attachment*>(py::capsule(py::object(dict[kKey])).get_pointer());
  }
};

std::vector<torch::autograd::Edge> edges_of(const py::iterable& roots) {
  std::vector<torch::autograd::Edge> edges;
  for (const auto& root : roots) {
    if (!THPVariable_Check(root.ptr())) {
      throw CheckpointError(
          "[reprise] a backward call inside a region starts from a GradientEdge, behind which the "
          "gradients that it accumulates cannot be found. Start from a tensor.");
    }
    edges.push_back(torch::autograd::impl::gradient_edge(THPVariable_Unpack(root.ptr())));
  }
  return edges;
}

/// For `with`, around a backward call that begins in a region.
class BackwardScope {
 public:
  BackwardScope(const py::iterable& roots, bool accumulates)
      : roots_(edges_of(roots)), accumulates_(accumulates) {}
  void enter() { scope_.emplace(roots_, accumulates_); }
  void exit(const py::args& /*exception*/) { scope_.reset(); }

 private:
  const std::vector<torch::autograd::Edge> roots_;
  const bool accumulates_;
  std::optional<detail::BackwardScope> scope_;
};

/// For `with`, around what is no part of a region.
class OutsideScope {
 public:
  void enter() { scope_.emplace(); }
  void exit(const py::args& /*exception*/) { scope_.reset(); }

 private:
  std::optional<detail::OutsideScope> scope_;
};

}  // namespace

void add_engine(py::module_& module) {
  module.attr("observer_keys") = detail::observer_keys().raw_repr();
  module.def("run_regions_to_end", &detail::run_regions_to_end);
  module.def("is_in_region", &detail::BackwardScope::is_needed);
  py::class_<BackwardScope>(module, "BackwardScope")
      .def(py::init<const py::iterable&, bool>())
      .def("__enter__", &BackwardScope::enter)
      .def("__exit__", &BackwardScope::exit);
  py::class_<OutsideScope>(module, "OutsideScope")
      .def(py::init<>())
      .def("__enter__", &OutsideScope::enter)
      .def("__exit__", &OutsideScope::exit);
  static const auto* python = new Python();  // allow: owning-new
  detail::enter_host(*python);
}

}  // namespace reprise::python
