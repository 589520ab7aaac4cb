#include "checkpoint/loaded_torch.h"

#include <reprise/options.h>

#include <c10/util/StringUtil.h>
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/headeronly/version.h>

#include <link.h>

#include <algorithm>
#include <string_view>

namespace reprise::detail {
namespace {

/// The highest bytes of an ABI version.
std::string version_of(uint64_t abi) {
  return c10::str(abi >> 56U, ".", abi >> 48U & 0xFFU, ".", abi >> 40U & 0xFFU);
}

bool is_same_minor(uint64_t a, uint64_t b) {
  return a >> 48U == b >> 48U;
}

}  // namespace

std::string torch_mismatch(uint64_t built, uint64_t loaded, const std::vector<std::string>& paths) {
  if (paths.size() > 1) {
    std::string list;
    for (const auto& path : paths) {
      list += (list.empty() ? "" : ", ") + path;
    }
    return c10::str(
        "[reprise] this process has loaded ",
        paths.size(),
        " LibTorch libraries (",
        list,
        "), each with its own operators and its own autograd engine. Link and load one.");
  }
  if (!is_same_minor(built, loaded)) {
    return c10::str(
        "[reprise] this Reprise was built with LibTorch ",
        version_of(built),
        ", but the process has loaded LibTorch ",
        version_of(loaded),
        paths.empty() ? "" : " (" + paths.front() + ")",
        ". Build Reprise with that version (REPRISE_TORCH), or load the one that it was "
        "built with.");
  }
  return "";
}

std::vector<std::string> loaded_torches() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        auto& known = *static_cast<std::vector<std::string>*>(found);
        const std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
        const bool is_torch =
            std::string_view(path).substr(path.rfind('/') + 1).starts_with("libtorch_cpu.so");
        if (is_torch && std::find(known.begin(), known.end(), path) == known.end()) {
          known.push_back(path);
        }
        return 0;
      },
      &paths);
  return paths;
}

void require_one_torch() {
  const auto why = torch_mismatch(TORCH_ABI_VERSION, aoti_torch_abi_version(), loaded_torches());
  if (!why.empty()) {
    throw CheckpointError(why);
  }
}

}  // namespace reprise::detail
