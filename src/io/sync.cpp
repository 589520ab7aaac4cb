#include "io/sync.h"

#include "io/descriptor.h"

namespace reprise::io {

namespace fs = std::filesystem;

void sync_folder(const fs::path& folder) {
  const fs::path path = folder.empty() ? fs::path(".") : folder;
  if (const Descriptor opened(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); opened.valid()) {
    ::fsync(opened.number());
  }
}

void sync_tree(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_directory()) {
      sync_folder(entry.path());
    } else if (entry.is_regular_file()) {
      const Descriptor file(entry.path(), kReadFlags);
      TORCH_CHECK(file.valid() && ::fsync(file.number()) == 0,
                  "[file] cannot write ",
                  entry.path().string(),
                  ": ",
                  last_error());
    }
  }
  sync_folder(folder);
}

}  // namespace reprise::io
