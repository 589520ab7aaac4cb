// Names of caches: one text for everything that a cache's examples depend on.
#pragma once

#include <reprise/io/json.h>

#include <filesystem>
#include <string>

namespace reprise::detail {

/// A strong hash of `text`, in hexadecimal.
std::string hash_text(const std::string& text);

/// What tells this file's content from another's.
///
/// Up to 64 MiB it is the hash of all bytes. Hashing 100 GB at every start would take minutes, so a
/// larger file is told by its size, its time of change to the nanosecond, and its first and last
/// MiB; its name is left out, so a moved file keeps its cache.
Json content_key(const std::filesystem::path& file);

}  // namespace reprise::detail
