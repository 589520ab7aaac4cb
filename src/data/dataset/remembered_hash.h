// The hash of a large file, computed once as long as the file stays as it is.
#pragma once

#include <reprise/export.h>

#include <chrono>
#include <filesystem>
#include <string>

namespace reprise::data {

/// SHA-1 of the SHA-1 of every 4 MiB of a file, in hexadecimal: parts are hashed by several
/// threads.
///
/// Hashing 100 GB takes minutes, so the result is stored in `folder` under the file's identity:
/// device, inode, size, and the times of its last modification and last change. No program can set
/// the last, so a file with the same identity has the same content. Nothing is stored if `folder`
/// is empty or cannot be written, or if the file changed so recently that the clock might not tell
/// a further change.
REPRISE_API std::string remembered_hash(
    const std::filesystem::path& file,
    const std::filesystem::path& folder,
    std::chrono::system_clock::time_point now = std::chrono::system_clock::now());

}  // namespace reprise::data
