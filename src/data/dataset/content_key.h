// Cache keys: hashes of everything that the examples of a cache depend on.
#pragma once

#include <reprise/io/json.h>

#include <filesystem>
#include <string>

namespace reprise::data {

/// SHA-1 of `text`, in hexadecimal.
std::string hash_text(const std::string& text);

/// Identifies the content of a file by its size and hash. Hashes of files above 64 MiB are
/// remembered in the folder `cache`, unless that is empty (remembered_hash.h). The name is not
/// included, so a moved file keeps its cache.
Json content_key(const std::filesystem::path& file, const std::filesystem::path& cache);

}  // namespace reprise::data
