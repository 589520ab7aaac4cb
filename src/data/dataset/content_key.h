// Cache keys: hashes of everything that the examples of a cache depend on.
#pragma once

#include <reprise/io/json.h>

#include <filesystem>
#include <string>

namespace reprise::data {

/// SHA-1 of `text`, in hexadecimal.
std::string hash_text(const std::string& text);

/// Identifies the content of a file.
///
/// Files up to 64 MiB are hashed completely. Hashing 100 GB at every start would take minutes, so
/// larger files are identified by size, modification time in nanoseconds, and the first and last
/// MiB. The name is not included, so a moved file keeps its cache.
Json content_key(const std::filesystem::path& file);

}  // namespace reprise::data
