#include "power_loss/crash_images.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <random>
#include <tuple>

namespace reprise::testing {
namespace {

namespace fs = std::filesystem;
using Kind = FileOperation::Kind;

/// What is there of the writes since the last fsync of a file.
enum class Unsynced : uint8_t { Nothing, Half, Zeros, All };

void write_into(std::string& content, const FileOperation& operation, size_t count, bool zeros) {
  const size_t end = operation.offset + count;
  if (content.size() < end) {
    content.resize(end, '\0');
  }
  if (zeros) {
    std::fill_n(content.begin() + static_cast<ptrdiff_t>(operation.offset), count, '\0');
  } else {
    std::copy_n(
        operation.bytes.begin(), count, content.begin() + static_cast<ptrdiff_t>(operation.offset));
  }
}

class Disk {
 public:
  Disk(const std::vector<FileOperation>& operations, size_t end)
      : operations_(operations), end_(end) {
    for (size_t i = 0; i < end_; ++i) {
      const auto& operation = operations_[i];
      if (operation.kind == Kind::Sync) {
        synced_[operation.file] = i;
      }
      for (const int folder : folders_of(operation)) {
        changes_[folder].push_back(i);
      }
    }
  }

  /// The folders whose entries an operation changes.
  static std::set<int> folders_of(const FileOperation& operation) {
    switch (operation.kind) {
      case Kind::Link:
      case Kind::Unlink:
        return {operation.folder};
      case Kind::Rename:
        return {operation.folder, operation.to_folder};
      default:
        return {};
    }
  }

  /// `kept(least, most)`: how many changes of a folder are on disk.
  CrashImage image(Unsynced unsynced, const std::function<size_t(size_t, size_t)>& kept) const {
    std::map<int, size_t> limits;  // by folder: the first operation that is missing
    for (const auto& [folder, changes] : changes_) {
      const auto sync = synced_.find(folder);
      const auto first_unsynced =
          sync == synced_.end() ? changes.begin()
                                : std::lower_bound(changes.begin(), changes.end(), sync->second);
      const auto count =
          kept(static_cast<size_t>(first_unsynced - changes.begin()), changes.size());
      limits[folder] = count == changes.size() ? end_ : changes[count];
    }
    std::map<int, std::map<std::string, int>> entries;
    std::set<int> is_folder{0};
    CrashImage image;
    for (size_t i = 0; i < end_; ++i) {
      const auto& operation = operations_[i];
      const auto folders = folders_of(operation);
      const bool is_kept =
          std::all_of(folders.begin(), folders.end(), [&](int one) { return i < limits[one]; });
      if (operation.kind == Kind::Note) {
        image.promises.insert(operation.name);
      } else if (!folders.empty() && is_kept) {
        change(entries, is_folder, operation);
      }
    }
    add(image, entries, is_folder, unsynced, /*folder=*/0, "");
    return image;
  }

 private:
  static void change(std::map<int, std::map<std::string, int>>& entries,
                     std::set<int>& is_folder,
                     const FileOperation& operation) {
    if (operation.kind == Kind::Link) {
      entries[operation.folder][operation.name] = operation.file;
      if (operation.is_folder) {
        is_folder.insert(operation.file);
      }
      return;
    }
    auto& from = entries[operation.folder];
    const auto found = from.find(operation.name);
    if (found == from.end()) {
      return;
    }
    const int file = found->second;
    from.erase(found);
    if (operation.kind == Kind::Rename) {
      entries[operation.to_folder][operation.to_name] = file;
    }
  }

  std::string content_of(int file, Unsynced unsynced) const {
    std::string content;
    const auto sync = synced_.find(file);
    for (size_t i = 0; i < end_; ++i) {
      const auto& operation = operations_[i];
      if (operation.file != file) {
        continue;
      }
      const bool is_synced = sync != synced_.end() && i < sync->second;
      if (!is_synced && unsynced == Unsynced::Nothing) {
        break;
      }
      if (operation.kind == Kind::Truncate) {
        content.resize(operation.offset, '\0');
      } else if (operation.kind == Kind::Write) {
        const bool is_torn = !is_synced && unsynced == Unsynced::Half;
        write_into(content,
                   operation,
                   operation.bytes.size() / (is_torn ? 2 : 1),
                   !is_synced && unsynced == Unsynced::Zeros);
        if (is_torn) {
          break;
        }
      }
    }
    return content;
  }

  void add(CrashImage& image,
           const std::map<int, std::map<std::string, int>>& entries,
           const std::set<int>& is_folder,
           Unsynced unsynced,
           int folder,
           const std::string& path) const {
    const auto found = entries.find(folder);
    if (found == entries.end()) {
      return;
    }
    for (const auto& [name, file] : found->second) {
      if (is_folder.contains(file)) {
        image.folders.insert(path + name);
        add(image, entries, is_folder, unsynced, file, path + name + "/");
      } else {
        image.files[path + name] = content_of(file, unsynced);
      }
    }
  }

  const std::vector<FileOperation>& operations_;
  size_t end_;
  std::map<int, size_t> synced_;                // the last fsync, by file or folder
  std::map<int, std::vector<size_t>> changes_;  // operations on entries, by folder
};

}  // namespace

bool CrashImage::operator<(const CrashImage& other) const {
  return std::tie(files, folders, promises) < std::tie(other.files, other.folders, other.promises);
}

void CrashImage::write_to(const fs::path& folder) const {
  for (const auto& name : folders) {
    fs::create_directories(folder / name);
  }
  for (const auto& [name, bytes] : files) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  }
}

std::vector<CrashImage> crash_images(const std::vector<FileOperation>& operations,
                                     size_t stride,
                                     uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto none = [](size_t least, size_t) { return least; };
  const auto all = [](size_t, size_t most) { return most; };
  const auto some = [&random](size_t least, size_t most) {
    return std::uniform_int_distribution<size_t>(least, most)(random);
  };
  std::set<CrashImage> images;
  for (size_t end = 0; end <= operations.size(); end += stride) {
    const Disk disk(operations, end);
    for (const Unsynced unsynced :
         {Unsynced::Nothing, Unsynced::Half, Unsynced::Zeros, Unsynced::All}) {
      images.insert(disk.image(unsynced, none));
      images.insert(disk.image(unsynced, all));
      images.insert(disk.image(unsynced, some));
    }
  }
  return {images.begin(), images.end()};
}

}  // namespace reprise::testing
