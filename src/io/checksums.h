// checksums.json: CRC-32 of the files of a folder, so that a byte that changed on disk is noticed
// before it is used. Against faults of disks and copies, not against people: whoever can write the
// files can write their checksums.
//
// Files are summed in chunks, which several threads and processes share, and which tell where a
// file is damaged.
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>

#include <filesystem>

namespace reprise::io {

inline constexpr const char* kChecksumsFile = "checksums.json";

/// Sums all files below `folder` and writes the file. Call it in one process, when the others have
/// written.
REPRISE_API void write_checksums(const std::filesystem::path& folder);

/// Compares the folder with its checksums.json. All processes call it and share the work; all throw
/// if one finds a file that is missing, has another length or another content.
REPRISE_API void verify_checksums(const std::filesystem::path& folder, const World& world);

}  // namespace reprise::io
