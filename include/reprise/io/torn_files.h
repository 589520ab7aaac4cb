// What AtomicFile leaves behind when its process is killed: files called
// .<name>.<process>.<number>, which nothing will ever complete.
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <filesystem>
#include <optional>

namespace reprise {

/// The process that writes, or wrote, such a file; nothing if this is no regular file with such a
/// name.
REPRISE_API std::optional<int64_t> writer_of_torn_file(const std::filesystem::path& path);

/// Removes those in a folder, and in the folders in it, that nobody is writing: untouched for ten
/// minutes and their process is dead, or untouched for a day. The number of a process says little
/// about a folder that machines or containers share, so a recent file is let be. Never throws: what
/// cannot be looked at or removed stays.
REPRISE_API void remove_abandoned_files(const std::filesystem::path& folder) noexcept;

}  // namespace reprise
