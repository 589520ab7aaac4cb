#include "io/pickle/zip_directory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

namespace reprise::io {
namespace {

static_assert(std::endian::native == std::endian::little, "zip archives are little-endian");

// Records of the format (APPNOTE.TXT), and their lengths without names and comments.
constexpr std::string_view kEnd("PK\5\6", 4), kEnd64("PK\6\6", 4), kLocator64("PK\6\7", 4),
    kCentral("PK\1\2", 4), kLocal("PK\3\4", 4);
constexpr size_t kEndBytes = 22, kEnd64Bytes = 56, kLocator64Bytes = 20, kCentralBytes = 46,
                 kLocalBytes = 30;
constexpr size_t kMaxComment = 65535;
// A model of 100,000 tensors has a directory of 20 MB.
constexpr uint64_t kMaxDirectoryBytes = uint64_t{64} << 20;
constexpr uint16_t kEncrypted = 1;
constexpr uint16_t kStored = 0;
constexpr uint16_t kExtra64 = 1;
constexpr uint32_t kIsIn64 = std::numeric_limits<uint32_t>::max();

template <class T>
T number_at(std::string_view bytes, size_t offset) {
  TORCH_INTERNAL_ASSERT(offset + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

class Archive {
 public:
  Archive(uint64_t bytes, const ReadBytes& read, const std::string& source)
      : bytes_(bytes), read_(read), where_("[torch] " + source + ": ") {}

  std::map<std::string, ZipEntry> entries() const {
    const auto [begin, bytes] = directory();
    TORCH_CHECK(bytes <= kMaxDirectoryBytes,
                where_,
                "zip directory: expected at most ",
                kMaxDirectoryBytes,
                " bytes, found ",
                bytes);
    const std::string text = at(begin, bytes, "zip directory");
    std::map<std::string, ZipEntry> entries;
    for (size_t position = 0; position < text.size();) {
      position += add_entry(std::string_view(text).substr(position), entries);
    }
    return entries;
  }

 private:
  std::string at(uint64_t offset, uint64_t bytes, const char* what) const {
    TORCH_CHECK(offset <= bytes_ && bytes <= bytes_ - offset,
                where_,
                what,
                ": expected ",
                bytes,
                " bytes at ",
                offset,
                ", found a file of ",
                bytes_,
                "; the file is truncated or damaged");
    return read_(offset, static_cast<size_t>(bytes));
  }

  // Where the directory is: the record at the end of the archive says so, or for large archives
  // another record that stands before it.
  ZipEntry directory() const {
    const uint64_t tail_bytes = std::min<uint64_t>(bytes_, kEndBytes + kMaxComment);
    const std::string tail = at(bytes_ - tail_bytes, tail_bytes, "end of the zip archive");
    const size_t found = tail.rfind(kEnd);
    TORCH_CHECK(found != std::string::npos && tail.size() - found >= kEndBytes,
                where_,
                "expected the end of a zip archive, found none; the file is truncated, or was not "
                "written by torch.save");
    const std::string_view end = std::string_view(tail).substr(found);
    const uint64_t end_offset = bytes_ - tail_bytes + found;
    if (end_offset < kLocator64Bytes) {
      return {number_at<uint32_t>(end, 16), number_at<uint32_t>(end, 12)};
    }
    const std::string locator = at(end_offset - kLocator64Bytes, kLocator64Bytes, "zip64 locator");
    if (!locator.starts_with(kLocator64)) {
      return {number_at<uint32_t>(end, 16), number_at<uint32_t>(end, 12)};
    }
    const std::string end64 = at(number_at<uint64_t>(locator, 8), kEnd64Bytes, "zip64 end");
    TORCH_CHECK(end64.starts_with(kEnd64), where_, "expected a zip64 end record, found none");
    return {number_at<uint64_t>(end64, 48), number_at<uint64_t>(end64, 40)};
  }

  // Returns the length of the record at the beginning of `rest`.
  size_t add_entry(std::string_view rest, std::map<std::string, ZipEntry>& entries) const {
    TORCH_CHECK(rest.size() >= kCentralBytes && rest.starts_with(kCentral),
                where_,
                "zip directory: expected an entry, found other bytes");
    const size_t name_bytes = number_at<uint16_t>(rest, 28),
                 extra_bytes = number_at<uint16_t>(rest, 30),
                 comment_bytes = number_at<uint16_t>(rest, 32);
    const size_t whole = kCentralBytes + name_bytes + extra_bytes + comment_bytes;
    TORCH_CHECK(whole <= rest.size(), where_, "zip directory: an entry ends beyond it");
    std::string name(rest.substr(kCentralBytes, name_bytes));
    const auto flags = number_at<uint16_t>(rest, 8), method = number_at<uint16_t>(rest, 10);
    TORCH_CHECK((flags & kEncrypted) == 0 && method == kStored,
                where_,
                "\"",
                name,
                "\" in the archive: expected it uncompressed, as torch.save writes it, found ",
                (flags & kEncrypted) != 0 ? "it encrypted" : "it compressed");
    // 32-bit fields, and 64-bit ones for those that are too large, in this order.
    uint64_t sizes[] = {number_at<uint32_t>(rest, 24),   // of the file
                        number_at<uint32_t>(rest, 20),   // of the file as it is stored
                        number_at<uint32_t>(rest, 42)};  // where its local header is
    widen(sizes, rest.substr(kCentralBytes + name_bytes, extra_bytes));
    TORCH_CHECK(sizes[0] == sizes[1],
                where_,
                "\"",
                name,
                "\" in the archive: expected ",
                sizes[0],
                " bytes, found ",
                sizes[1]);
    const uint64_t begin = data_begin(sizes[2], name);
    TORCH_CHECK(begin <= bytes_ && sizes[0] <= bytes_ - begin,
                where_,
                "\"",
                name,
                "\" in the archive: expected ",
                sizes[0],
                " bytes at ",
                begin,
                ", found a file of ",
                bytes_);
    TORCH_CHECK(entries.emplace(name, ZipEntry{begin, sizes[0]}).second,
                where_,
                "two files in the archive are called \"",
                name,
                "\"");
    return whole;
  }

  template <size_t kCount>
  static void widen(uint64_t (&sizes)[kCount], std::string_view extra) {
    constexpr size_t kHead = 4;  // id and length of a field
    while (extra.size() >= kHead) {
      const size_t length = std::min<size_t>(number_at<uint16_t>(extra, 2), extra.size() - kHead);
      if (number_at<uint16_t>(extra, 0) == kExtra64) {
        std::string_view field = extra.substr(kHead, length);
        for (uint64_t& size : sizes) {
          if (size == kIsIn64 && field.size() >= sizeof(uint64_t)) {
            size = number_at<uint64_t>(field, 0);
            field.remove_prefix(sizeof(uint64_t));
          }
        }
        return;
      }
      extra.remove_prefix(kHead + length);
    }
  }

  // Behind the local header, whose name and extra fields may be longer than those of the directory.
  uint64_t data_begin(uint64_t header, const std::string& name) const {
    const std::string local = at(header, kLocalBytes, "zip entry");
    TORCH_CHECK(local.starts_with(kLocal),
                where_,
                "expected \"",
                name,
                "\" at ",
                header,
                ", found other bytes");
    return header + kLocalBytes + number_at<uint16_t>(local, 26) + number_at<uint16_t>(local, 28);
  }

  uint64_t bytes_;
  const ReadBytes& read_;
  std::string where_;
};

}  // namespace

std::map<std::string, ZipEntry> read_zip_directory(uint64_t archive_bytes,
                                                   const ReadBytes& read,
                                                   const std::string& source) {
  return Archive(archive_bytes, read, source).entries();
}

}  // namespace reprise::io
