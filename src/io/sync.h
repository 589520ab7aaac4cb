// Makes names durable: a file or folder that was created, renamed or removed is on disk under its
// name only once the folder that holds it is synced.
#pragma once

#include <filesystem>

namespace reprise::io {

/// Some file systems cannot sync a folder; that is no error.
void sync_folder(const std::filesystem::path& folder);

/// Syncs all files and folders below `folder`, and the folder. Throws, naming the file, if one
/// cannot be written.
void sync_tree(const std::filesystem::path& folder);

}  // namespace reprise::io
