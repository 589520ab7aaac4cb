#include "reprise/output_folder.h"

#include <c10/util/Exception.h>

#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>

namespace reprise::app {

namespace fs = std::filesystem;

OutputFolder::OutputFolder(fs::path path) : final_(fs::absolute(path).lexically_normal()) {
  if (!final_.has_filename()) {
    final_ = final_.parent_path();  // written with a slash at the end
  }
  TORCH_CHECK(!fs::exists(final_) || (fs::is_directory(final_) && fs::is_empty(final_)),
              final_.string(),
              ": is there already; name a new or an empty folder");
  fs::create_directories(final_.parent_path());
  temporary_ = final_;
  temporary_ += ".partial-" + std::to_string(getpid());
  TORCH_CHECK(fs::create_directory(temporary_),
              temporary_.string(),
              ": is there already, left by a run that was killed; remove it");
}

OutputFolder::~OutputFolder() {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
}

void OutputFolder::commit() {
  // Replaces an empty folder, and nothing else.
  fs::rename(temporary_, final_);
}

}  // namespace reprise::app
