#include "hooks.h"

#include "module.h"

#include <reprise/detail/host_language.h>

#include <torch/csrc/autograd/python_hook.h>
#include <torch/csrc/autograd/python_variable.h>

#include <pybind11/functional.h>

#include <string_view>
#include <typeinfo>
#include <vector>

namespace reprise::python {
namespace {

/// A dictionary of hooks, and what is in it now.
struct Kept {
  Kept(py::handle hooks, PyObject* copy)
      : dict(py::reinterpret_borrow<py::object>(hooks)),
        content(py::reinterpret_steal<py::object>(copy)) {}
  Held dict;
  Held content;
};

class KeptHooks {
 public:
  void add(PyObject* dict) {
    PyObject* copy = PyDict_Copy(dict);
    if (copy == nullptr) {
      throw py::error_already_set();
    }
    kept_.emplace_back(dict, copy);
  }
  bool is_empty() const { return kept_.empty(); }

  KeptHooks() = default;
  ~KeptHooks() {
    if (!is_interpreter_alive()) {
      return;
    }
    const py::gil_scoped_acquire gil;
    const py::error_scope error;  // an early stop may be on its way
    for (const auto& kept : kept_) {
      // By methods: the dictionaries are ordered.
      kept.dict.get().attr("clear")();
      kept.dict.get().attr("update")(kept.content.get());
    }
  }
  KeptHooks(const KeptHooks&) = delete;
  KeptHooks& operator=(const KeptHooks&) = delete;

 private:
  std::vector<Kept> kept_;
};

/// The dictionary behind one of LibTorch's hooks; null if there is none. The type is known by its
/// name, as LibTorch does not export it.
template <class PyHook, class Hook>
PyObject* dict_of(Hook& hook, std::string_view name) {
  return typeid(hook).name() == name ? static_cast<PyHook&>(hook).dict : nullptr;
}

unsigned add_hook(const py::object& tensor, const std::function<unsigned()>& add) {
  return detail::add_host_hook(THPVariable_Unpack(tensor.ptr()), add);
}

}  // namespace

std::shared_ptr<void> kept_hooks(torch::autograd::Node& node) {
  namespace autograd = torch::autograd;
  auto kept = std::make_shared<KeptHooks>();
  const py::gil_scoped_acquire gil;
  for (const auto& hook : node.pre_hooks()) {
    constexpr auto kName = "N5torch8autograd17PyFunctionPreHookE";
    if (auto* dict = dict_of<autograd::PyFunctionPreHook>(*hook, kName)) {
      kept->add(dict);
    }
  }
  for (const auto& hook : node.post_hooks()) {
    constexpr auto kName = "N5torch8autograd18PyFunctionPostHookE";
    if (auto* dict = dict_of<autograd::PyFunctionPostHook>(*hook, kName)) {
      kept->add(dict);
    }
  }
  return kept->is_empty() ? nullptr : kept;
}

void add_hooks(py::module_& module) {
  module.def("add_hook", &add_hook);
  module.def("new_hook", &detail::new_host_hook);
  module.def("may_run_hook", &detail::may_run_host_hook);
}

}  // namespace reprise::python
