#include "options.h"

#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>

namespace reprise::python {
namespace {

CheckpointOptions make_options(bool use_reentrant,
                               bool preserve_rng_state,
                               bool early_stop,
                               DeterminismCheck determinism_check,
                               std::shared_ptr<Policy> policy,
                               bool allow_lossy,
                               bool offload_inputs,
                               std::string name) {
  return {.use_reentrant = use_reentrant,
          .preserve_rng_state = preserve_rng_state,
          .early_stop = early_stop,
          .determinism_check = determinism_check,
          .policy = std::move(policy),
          .allow_lossy = allow_lossy,
          .offload_inputs = offload_inputs,
          .name = std::move(name)};
}

}  // namespace

void add_options(py::module_& module) {
  py::enum_<DeterminismCheck>(module, "DeterminismCheck")
      .value("NONE", DeterminismCheck::None)
      .value("METADATA", DeterminismCheck::Metadata)
      .value("VALUES", DeterminismCheck::Values);
  py::class_<CheckpointOptions>(module, "Options")
      .def(py::init(&make_options),
           py::kw_only(),
           py::arg("use_reentrant") = false,
           py::arg("preserve_rng_state") = true,
           py::arg("early_stop") = true,
           py::arg("determinism_check") = DeterminismCheck::Metadata,
           py::arg("policy") = py::none(),
           py::arg("allow_lossy") = false,
           py::arg("offload_inputs") = false,
           py::arg("name") = "")
      .def_readonly("name", &CheckpointOptions::name);
}

}  // namespace reprise::python
