// Whether the process has the LibTorch that Reprise was built with, and no other one.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::detail {

/// Why a Reprise that was built with the ABI version `built` (TORCH_ABI_VERSION) cannot run with
/// the libraries `paths`, which are of the version `loaded`. Empty if it can: patches of one
/// version fit each other.
REPRISE_API std::string torch_mismatch(uint64_t built,
                                       uint64_t loaded,
                                       const std::vector<std::string>& paths);

/// The paths of every libtorch_cpu.so in the process, each once.
REPRISE_API std::vector<std::string> loaded_torches();

/// Throws if there is a mismatch.
REPRISE_API void require_one_torch();

}  // namespace reprise::detail
