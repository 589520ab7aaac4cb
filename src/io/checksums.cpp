#include "io/checksums.h"

#include "io/random_access_file.h"

#include <reprise/io/json.h>

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <vector>

namespace reprise::io {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kChunkBytes = uint64_t{16} << 20;

/// A part of a file that is summed at once.
struct Chunk {
  const RandomAccessFile* file;
  uint64_t offset;
  uint32_t sum = 0;  // found, or expected
};

uint32_t sum_of(const Chunk& chunk) {
  constexpr uint64_t kStep = uint64_t{1} << 20;
  const uint64_t end = std::min(chunk.file->size(), chunk.offset + kChunkBytes);
  std::vector<std::byte> bytes(std::min(kStep, end - chunk.offset));
  uLong sum = ::crc32_z(0, nullptr, 0);
  for (uint64_t at = chunk.offset; at < end; at += bytes.size()) {
    bytes.resize(std::min(kStep, end - at));
    chunk.file->read(at, bytes);
    sum = ::crc32_z(sum, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  }
  return static_cast<uint32_t>(sum);
}

/// Calls `visit` for each chunk on several threads.
template <class Visit>
void for_each_chunk(std::vector<Chunk>& chunks, const Visit& visit) {
  at::parallel_for(0, std::ssize(chunks), 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      visit(chunks[static_cast<size_t>(i)]);
    }
  });
}

std::string hex(uint32_t sum) {
  std::string text(8, '0');
  for (size_t i = 0; i < text.size(); ++i) {
    text[text.size() - 1 - i] = "0123456789abcdef"[sum >> (4 * i) & 0xFU];
  }
  return text;
}

std::optional<uint32_t> number_in(const Json& text) {
  uint32_t number = 0;
  if (!text.is_string() || text.get_ref<const std::string&>().size() != 8) {
    return std::nullopt;
  }
  const auto& digits = text.get_ref<const std::string&>();
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + 8, number, 16);
  return error == std::errc() && end == digits.data() + 8 ? std::optional(number) : std::nullopt;
}

/// The files below the folder, relative to it, sorted.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file() && entry.path() != folder / kChecksumsFile) {
      files.push_back(entry.path().lexically_relative(folder));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

uint64_t chunks_of(uint64_t bytes) {
  return (bytes + kChunkBytes - 1) / kChunkBytes;
}

/// Whether a name from the file stays below the folder.
bool is_inside(const fs::path& name) {
  return !name.empty() && name.is_relative() && name == name.lexically_normal() &&
         *name.begin() != "..";
}

struct ListedFile {
  std::unique_ptr<RandomAccessFile> file;
  const Json* sums;
};

/// Opens a file that checksums.json lists, and checks its length.
ListedFile open_listed(const fs::path& folder, const std::string& name, const Json& listed) {
  const std::string where = (folder / kChecksumsFile).string();
  const bool is_entry = is_inside(name) && listed.is_object() && listed.contains("bytes") &&
                        listed["bytes"].is_number_unsigned() && listed.contains("crc32") &&
                        listed["crc32"].is_array();
  TORCH_CHECK(is_entry, where, ": ", name, ": expected the length and the sums of a file");
  const auto bytes = listed["bytes"].get<uint64_t>();
  TORCH_CHECK(listed["crc32"].size() == chunks_of(bytes),
              where,
              ": ",
              name,
              ": expected a sum for each ",
              kChunkBytes,
              " bytes");
  TORCH_CHECK(fs::exists(folder / name), (folder / name).string(), ": is missing");
  auto file = std::make_unique<RandomAccessFile>(folder / name);
  TORCH_CHECK(file->size() == bytes,
              file->path().string(),
              ": expected ",
              bytes,
              " bytes, found ",
              file->size(),
              ". The file is damaged: use another checkpoint.");
  return {std::move(file), &listed["crc32"]};
}

}  // namespace

void write_checksums(const fs::path& folder) {
  const auto names = files_in(folder);
  std::vector<std::unique_ptr<RandomAccessFile>> files;
  std::vector<Chunk> chunks;
  for (const auto& name : names) {
    files.push_back(std::make_unique<RandomAccessFile>(folder / name));
    for (uint64_t at = 0; at < files.back()->size(); at += kChunkBytes) {
      chunks.push_back({files.back().get(), at});
    }
  }
  for_each_chunk(chunks, [](Chunk& chunk) { chunk.sum = sum_of(chunk); });
  Json listed = Json::object();
  for (size_t i = 0; i < names.size(); ++i) {
    listed[names[i].generic_string()] = {{"bytes", files[i]->size()}, {"crc32", Json::array()}};
  }
  for (const auto& chunk : chunks) {
    const auto name = chunk.file->path().lexically_relative(folder).generic_string();
    listed[name]["crc32"].push_back(hex(chunk.sum));
  }
  write_json(folder / kChecksumsFile, {{"chunk_bytes", kChunkBytes}, {"files", listed}});
}

void verify_checksums(const fs::path& folder, const World& world) {
  world.run_on_all("verifying " + folder.string(), [&] {
    const fs::path path = folder / kChecksumsFile;
    const Json json = read_json(path);
    const bool is_list = json.is_object() && json.contains("files") && json["files"].is_object() &&
                         json.contains("chunk_bytes") && json["chunk_bytes"] == kChunkBytes;
    TORCH_CHECK(is_list, path.string(), ": expected the checksums of files");
    std::vector<std::unique_ptr<RandomAccessFile>> files;
    std::vector<Chunk> chunks;
    int64_t number = 0;
    for (const auto& [name, listed] : json["files"].items()) {
      auto [file, sums] = open_listed(folder, name, listed);
      for (size_t i = 0; i < sums->size(); ++i) {
        const auto sum = number_in((*sums)[i]);
        TORCH_CHECK(sum, path.string(), ": ", name, ": expected sums of 8 hexadecimal digits");
        if (number++ % world.size() == world.rank()) {
          chunks.push_back({file.get(), i * kChunkBytes, *sum});
        }
      }
      files.push_back(std::move(file));
    }
    for_each_chunk(chunks, [](const Chunk& chunk) {
      TORCH_CHECK(sum_of(chunk) == chunk.sum,
                  chunk.file->path().string(),
                  ": has changed since it was written, between byte ",
                  chunk.offset,
                  " and ",
                  std::min(chunk.file->size(), chunk.offset + kChunkBytes),
                  ". The file is damaged: use another checkpoint.");
    });
  });
}

}  // namespace reprise::io
