// Writing tensors of which several processes have parts: the very files that one process with all
// of them would write.
//
// The first process makes every file in its full length, under a temporary name; all write what
// they have to its place; when all of it is on disk the first gives the files their names. All
// processes of the world call these functions, with the same folder, which they must share. What
// fails in one of them throws in all, and leaves nothing behind. Where several have the same part,
// the first of them writes it.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_part.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace reprise {

/// write_safetensors of the tensors that any process has a part of, in the dtypes they have.
REPRISE_API void write_safetensors_together(
    const World& world,
    const std::filesystem::path& path,
    const std::vector<TensorPart>& parts,
    const std::map<std::string, std::string>& metadata = {});

/// write_checkpoint of these tensors (names, dtypes, shapes), the same in all processes. Values are
/// converted to the dtypes and fetched from their device in slices.
REPRISE_API void write_checkpoint_together(const World& world,
                                           const std::filesystem::path& folder,
                                           const std::vector<TensorInfo>& tensors,
                                           const std::vector<TensorPart>& parts,
                                           uint64_t max_shard_bytes = uint64_t{5} << 30,
                                           const std::string& stem = "model");

}  // namespace reprise
