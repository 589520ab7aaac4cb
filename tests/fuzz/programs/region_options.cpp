#include "fuzz/programs/region_options.h"

#include "fuzz/programs/helpers.h"

#include <map>
#include <memory>
#include <tuple>

namespace reprise::fuzz {
namespace {

std::shared_ptr<const Policy> make_policy(const RegionOptions& options) {
  switch (options.policy) {
    case PolicyKind::None:
      return nullptr;
    case PolicyKind::Full:
      return policy::full();
    case PolicyKind::SaveMatmuls:
      return policy::save_matmuls(static_cast<size_t>(options.every));
    case PolicyKind::SaveOps:
      return policy::save_ops({options.op});
    case PolicyKind::KeepByHash:
      return helpers::keep_by_hash(static_cast<size_t>(options.every));
    case PolicyKind::CompressMasks:
      return helpers::compress_masks();
  }
  return nullptr;
}

/// Policies are shared between regions. Making one by name reads the list of all operators.
std::shared_ptr<const Policy> policy_of(const RegionOptions& options) {
  thread_local std::map<std::tuple<PolicyKind, int, std::string>, std::shared_ptr<const Policy>>
      known;
  auto& policy = known[{options.policy, options.every, options.op}];
  if (!policy) {
    policy = make_policy(options);
  }
  return policy;
}

std::string policy_text(const RegionOptions& options) {
  switch (options.policy) {
    case PolicyKind::None:
      return "nullptr";
    case PolicyKind::Full:
      return "reprise::policy::full()";
    case PolicyKind::SaveMatmuls:
      return "reprise::policy::save_matmuls(" + std::to_string(options.every) + ")";
    case PolicyKind::SaveOps:
      return "reprise::policy::save_ops({\"" + options.op + "\"})";
    case PolicyKind::KeepByHash:
      return "keep_by_hash(" + std::to_string(options.every) + ")";
    case PolicyKind::CompressMasks:
      return "compress_masks()";
  }
  return "nullptr";
}

}  // namespace

CheckpointOptions checkpoint_options(const RegionOptions& options,
                                     const std::vector<at::Generator>& generators) {
  return {.use_reentrant = options.use_reentrant,
          .preserve_rng_state = options.preserve_rng_state,
          .early_stop = options.early_stop,
          .determinism_check = static_cast<DeterminismCheck>(options.determinism_check),
          .policy = policy_of(options),
          .generators = options.lists_generators ? generators : std::vector<at::Generator>(),
          .name = "region"};
}

std::string options_text(const RegionOptions& options, int generators) {
  std::string text;
  const auto add = [&text](const std::string& field) {
    text += (text.empty() ? "" : ", ") + field;
  };
  if (options.use_reentrant) {
    add(".use_reentrant = true");
  }
  if (!options.preserve_rng_state) {
    add(".preserve_rng_state = false");
  }
  if (!options.early_stop) {
    add(".early_stop = false");
  }
  if (options.determinism_check != 1) {
    add(std::string(".determinism_check = reprise::DeterminismCheck::") +
        (options.determinism_check == 0 ? "None" : "Values"));
  }
  if (options.policy != PolicyKind::None) {
    add(".policy = " + policy_text(options));
  }
  if (options.lists_generators) {
    std::string list;
    for (int i = 0; i < generators; ++i) {
      list += (i == 0 ? "g" : ", g") + std::to_string(i);
    }
    add(".generators = {" + list + "}");
  }
  return "{" + text + "}";
}

}  // namespace reprise::fuzz
