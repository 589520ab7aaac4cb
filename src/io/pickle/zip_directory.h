// The list of files in a zip archive, as torch.save writes one: nothing is compressed, so that a
// file in it is a range of bytes. Every offset and length is checked against the archive.
#pragma once

#include "io/safetensors/safetensors_header.h"

#include <cstdint>
#include <map>
#include <string>

namespace reprise::io {

/// A range of bytes of the archive.
struct ZipEntry {
  uint64_t begin = 0;
  uint64_t bytes = 0;
};

/// Throws c10::Error, naming `source`, what was expected and what was found.
std::map<std::string, ZipEntry> read_zip_directory(uint64_t archive_bytes,
                                                   const ReadBytes& read,
                                                   const std::string& source);

}  // namespace reprise::io
