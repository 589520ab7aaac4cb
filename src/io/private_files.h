// Files that only this user can change. What a run stores for later runs is taken back only if
// nobody else could have written it.
#pragma once

#include <filesystem>

namespace reprise::io {

/// Creates a folder, and its parents unless they exist, that other users can neither read nor
/// change. An existing folder of this user is closed to the others. Throws, naming the folder, if
/// it belongs to somebody else.
void create_private_folder(const std::filesystem::path& folder);

/// Closes a file of this user to the others.
void make_private(const std::filesystem::path& file);

}  // namespace reprise::io
