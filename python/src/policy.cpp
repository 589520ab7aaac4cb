// Policies: those of the engine, and Python functions as policies.
#include "errors.h"
#include "module.h"

#include <reprise/policy.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <pybind11/stl.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace reprise::python {
namespace {

/// torch.ops.<namespace>.<name>.<overload>
py::object overload_of(std::string_view name, std::string_view overload) {
  // Needs the GIL, which guards the table too. Overloads live as long as the interpreter.
  static auto* known = new std::unordered_map<std::string, py::object>();  // allow: owning-new
  auto& found = (*known)[std::string(name) + "." + std::string(overload)];
  if (found) {
    return found;
  }
  const auto colons = name.find("::");
  const auto part = [](std::string_view text) { return py::str(text.data(), text.size()); };
  return found = py::module_::import("torch")
                     .attr("ops")
                     .attr(part(name.substr(0, colons)))
                     .attr(part(name.substr(colons + 2)))
                     .attr(overload.empty() ? py::str("default") : part(overload));
}

/// A dtype, layout or memory format is a number in C++, and so for LibTorch's conversion.
py::object argument_of(const c10::Argument& argument, const c10::IValue& value) {
  const auto optional = argument.real_type()->cast<c10::OptionalType>();
  const auto kind = (optional ? optional->getElementType() : argument.real_type())->kind();
  const auto borrowed = [](auto* object) {
    return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(object));
  };
  if (value.isInt() && kind == c10::TypeKind::ScalarTypeType) {
    return borrowed(torch::getTHPDtype(value.toScalarType()));
  }
  if (value.isInt() && kind == c10::TypeKind::LayoutType) {
    return borrowed(torch::getTHPLayout(value.toLayout()));
  }
  if (value.isInt() && kind == c10::TypeKind::MemoryFormatType) {
    return borrowed(torch::utils::getTHPMemoryFormat(value.toMemoryFormat()));
  }
  return torch::jit::toPyObject(value);
}

py::object result_of(c10::ArrayRef<c10::IValue> results) {
  if (results.size() == 1) {
    return torch::jit::toPyObject(results[0]);
  }
  py::list values;
  for (const auto& result : results) {
    values.append(torch::jit::toPyObject(result));
  }
  return values.empty() ? py::object(py::none()) : py::object(py::tuple(values));
}

/// Asks `decide(operator, args, kwargs, range, writes_arguments, result)`.
class FunctionPolicy final : public Policy {
 public:
  FunctionPolicy(py::object decide, std::string description, bool reads_results)
      : decide_(std::move(decide)),
        description_(std::move(description)),
        reads_results_(reads_results) {}

  bool reads_results() const override { return reads_results_; }

  Decision decide(const OpContext& op) const override {
    const py::gil_scoped_acquire gil;
    try {
      const auto overload = overload_of(op.name, op.overload);
      const auto handle =
          c10::Dispatcher::singleton().findSchema({std::string(op.name), std::string(op.overload)});
      py::list args;
      py::dict kwargs;
      for (size_t i = 0; i < op.arguments.size(); ++i) {
        const auto& argument = handle->schema().arguments()[i];
        auto value = argument_of(argument, op.arguments[i]);
        if (!argument.kwarg_only()) {
          args.append(std::move(value));
        } else if (!op.arguments[i].isNone()) {
          kwargs[py::str(argument.name())] = std::move(value);
        }
      }
      return decide_
          .get()(overload,
                 py::tuple(args),
                 kwargs,
                 py::str(op.range.data(), op.range.size()),
                 op.writes_arguments,
                 result_of(op.results))
          .cast<Decision>();
    } catch (py::error_already_set& error) {
      error.restore();
      throw taken_error();
    }
  }

  std::string describe() const override { return description_; }

 private:
  const Held decide_;
  const std::string description_;
  const bool reads_results_;
};

/// Keeps the results of these overloads, if they are called: a list that names others is no error,
/// as in PyTorch.
class ListPolicy final : public Policy {
 public:
  ListPolicy(std::vector<std::pair<std::string, std::string>> overloads, std::string description)
      : overloads_(std::move(overloads)), description_(std::move(description)) {}

  Decision decide(const OpContext& op) const override {
    const bool is_listed =
        std::any_of(overloads_.begin(), overloads_.end(), [&op](const auto& listed) {
          return listed.first == op.name && listed.second == op.overload;
        });
    return is_listed ? Decision::Keep : Decision::Recompute;
  }
  std::string describe() const override { return description_; }

 private:
  const std::vector<std::pair<std::string, std::string>> overloads_;
  const std::string description_;
};

/// pybind11 holds no pointers to const objects; policies are immutable.
std::shared_ptr<Policy> held(const std::shared_ptr<const Policy>& policy) {
  return std::const_pointer_cast<Policy>(policy);
}

}  // namespace

void add_policies(py::module_& module) {
  py::enum_<Decision>(module, "Decision")
      .value("KEEP", Decision::Keep)
      .value("RECOMPUTE", Decision::Recompute)
      .value("OFFLOAD", Decision::Offload)
      .value("COMPRESS", Decision::Compress);
  py::class_<Policy, std::shared_ptr<Policy>>(module, "Policy")
      .def("__repr__",
           [](const Policy& policy) { return "<reprise policy " + policy.describe() + ">"; })
      .def("__str__", &Policy::describe);
  module.def("full", [] { return held(policy::full()); });
  module.def("save_ops", [](std::vector<std::string> names) {
    return held(policy::save_ops(std::move(names)));
  });
  module.def("save_attention", [] { return held(policy::save_attention()); });
  module.def("save_matmuls", [](size_t every) { return held(policy::save_matmuls(every)); });
  module.def("save_named", [](std::vector<std::string> names) {
    return held(policy::save_named(std::move(names)));
  });
  module.def("from_function", [](py::object decide, std::string description, bool reads_results) {
    return std::shared_ptr<Policy>(
        std::make_shared<FunctionPolicy>(std::move(decide), std::move(description), reads_results));
  });
  module.def("from_list",
             [](std::vector<std::pair<std::string, std::string>> overloads, std::string text) {
               return std::shared_ptr<Policy>(
                   std::make_shared<ListPolicy>(std::move(overloads), std::move(text)));
             });
  module.def("register_effectful_op", &register_effectful_op);
}

}  // namespace reprise::python
