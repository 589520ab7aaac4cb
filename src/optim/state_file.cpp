// The checks of a saved state against the tensors that it is to go to.
#include "optim/state_file.h"

#include <c10/util/Exception.h>

#include <string>
#include <unordered_set>

namespace reprise {

void check_holds_exactly(const SafetensorsFile& file, const NamedTensors& targets) {
  const std::string path = file.path().string();
  std::unordered_set<std::string> names;
  for (const auto& [name, target] : targets) {
    names.insert(name);
    const TensorInfo* const info = file.find(name);
    TORCH_CHECK(info != nullptr,
                "[optim] ",
                path,
                ": expected a tensor \"",
                name,
                "\", found none. Was the state saved with the same parameters and options?");
    TORCH_CHECK(
        target.sizes() == at::IntArrayRef(info->shape) && target.scalar_type() == info->dtype,
        "[optim] ",
        path,
        ": tensor \"",
        name,
        "\": expected ",
        target.sizes(),
        " of ",
        target.scalar_type(),
        ", found ",
        at::IntArrayRef(info->shape),
        " of ",
        info->dtype);
  }
  for (const TensorInfo& info : file.tensors()) {
    TORCH_CHECK(names.count(info.name) == 1,
                "[optim] ",
                path,
                ": tensor \"",
                info.name,
                "\" has no place in this state. Was it saved with more parameters, or with "
                "another optimizer or other options?");
  }
}

void copy_state(const SafetensorsFile& file, const NamedTensors& targets) {
  for (const auto& [name, target] : targets) {
    file.copy_to(*file.find(name), target);
  }
}

}  // namespace reprise
