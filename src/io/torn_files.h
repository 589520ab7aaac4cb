// Temporary files of AtomicFile whose process was killed: .<name>.<process>.<number>. Nothing will
// ever complete them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace reprise::io {

/// The process that writes, or wrote, a temporary file; std::nullopt if this is not a regular file
/// with such a name.
std::optional<int64_t> writer_of_torn_file(const std::filesystem::path& path);

/// Removes torn files in a folder and its direct subfolders that nobody is writing: not written to
/// for ten minutes and their process is dead, or not for a day. In a folder shared by machines or
/// containers a process id proves little, so recent files stay. Never throws: what cannot be
/// inspected or removed stays.
void remove_abandoned_files(const std::filesystem::path& folder) noexcept;

}  // namespace reprise::io
