// Writes tensors of which several processes have parts, to the same bytes that one process with the
// whole tensors would write.
//
// The first process creates every file in its full length under a temporary name, all processes
// write their parts into it, and once everything is on disk the first one renames the files. These
// functions are collectives; the processes must share the folder. A failure in one process throws
// in all of them and leaves nothing behind. A part that several processes have is written by the
// first of them.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/io/tensor_part.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace reprise::io {

/// write_safetensors for the tensors that any process has a part of, in their own dtypes.
REPRISE_API void write_safetensors_distributed(
    const World& world,
    const std::filesystem::path& path,
    const std::vector<TensorPart>& parts,
    const std::map<std::string, std::string>& metadata = {});

/// write_checkpoint for these tensors (names, dtypes, shapes), which are the same in all processes.
/// Values are converted to the dtypes and copied from their device in slices.
REPRISE_API void write_checkpoint_distributed(const World& world,
                                              const std::filesystem::path& folder,
                                              const std::vector<TensorInfo>& tensors,
                                              const std::vector<TensorPart>& parts,
                                              uint64_t max_shard_bytes = uint64_t{5} << 30,
                                              const std::string& stem = "model");

}  // namespace reprise::io
