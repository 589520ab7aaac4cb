// Checks a saved state against the tensors that it is loaded into.
#include "optim/state_file.h"

#include <c10/util/Exception.h>

#include <sstream>

namespace reprise {
namespace {

constexpr const char* kOtherOptimizer =
    ". The state was saved by another optimizer, or of parameters of another dtype: resume with "
    "the same `optim` and `dtype`, or begin a new run from the checkpoint's weights";

}  // namespace

std::vector<TensorPart> whole_parts(const NamedTensors& tensors) {
  std::vector<TensorPart> parts;
  for (const auto& [name, tensor] : tensors) {
    parts.push_back(
        {name, tensor.defined() ? tensor.sizes().vec() : std::vector<int64_t>(), 0, tensor});
  }
  return parts;
}

std::unordered_set<std::string> names_everywhere(const std::vector<TensorPart>& parts,
                                                 const World& world) {
  std::string own;
  for (const TensorPart& part : parts) {
    own += part.name + '\0';
  }
  std::unordered_set<std::string> names;
  for (const std::string& theirs : world.all_gather(own, "names of saved state")) {
    std::istringstream rest(theirs);
    for (std::string name; std::getline(rest, name, '\0');) {
      names.insert(name);
    }
  }
  return names;
}

void check_holds_exactly(const TensorFile& file,
                         const std::vector<TensorPart>& targets,
                         const std::unordered_set<std::string>& names) {
  const std::string path = file.path().string();
  for (const auto& [name, shape, begin, target] : targets) {
    const TensorInfo* const info = file.find(name);
    TORCH_CHECK(info != nullptr,
                "[optim] ",
                path,
                ": expected a tensor \"",
                name,
                "\", found none. Was the state saved with the same parameters and options?");
    TORCH_CHECK(shape == info->shape && target.scalar_type() == info->dtype,
                "[optim] ",
                path,
                ": tensor \"",
                name,
                "\": expected ",
                at::IntArrayRef(shape),
                " of ",
                target.scalar_type(),
                ", found ",
                at::IntArrayRef(info->shape),
                " of ",
                info->dtype,
                target.scalar_type() == info->dtype ? "" : kOtherOptimizer);
  }
  for (const TensorInfo& info : file.tensors()) {
    TORCH_CHECK(names.count(info.name) == 1,
                "[optim] ",
                path,
                ": tensor \"",
                info.name,
                "\" does not belong to this state. Was it saved with more parameters, or with "
                "another optimizer or other options?");
  }
}

void copy_state(const TensorFile& file, const std::vector<TensorPart>& targets) {
  for (const TensorPart& target : targets) {
    file.copy_part_to(*file.find(target.name), target.begin, target.values);
  }
}

}  // namespace reprise
