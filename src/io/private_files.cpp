// Modes are set explicitly, because a umask of 002 lets the group write.
#include "io/private_files.h"

#include "io/last_error.h"

#include <reprise/io/file.h>

#include <c10/util/Exception.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace reprise::io {

void create_private_folder(const std::filesystem::path& folder) {
  if (folder.has_parent_path()) {
    create_folder(folder.parent_path());
  }
  TORCH_CHECK(::mkdir(folder.c_str(), S_IRWXU) == 0 || errno == EEXIST,
              "[file] ",
              folder.string(),
              ": cannot create the folder: ",
              last_error());
  struct stat status {};
  TORCH_CHECK(::lstat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
                  status.st_uid == ::geteuid(),
              "[file] ",
              folder.string(),
              ": is not a folder of this user, so what is in it cannot be trusted; remove it, or "
              "choose another cache folder");
  TORCH_CHECK(::chmod(folder.c_str(), S_IRWXU) == 0,
              "[file] ",
              folder.string(),
              ": cannot close it to other users: ",
              last_error());
}

void make_private(const std::filesystem::path& file) {
  TORCH_CHECK(::chmod(file.c_str(), S_IRUSR | S_IWUSR) == 0,
              "[file] ",
              file.string(),
              ": cannot close it to other users: ",
              last_error());
}

}  // namespace reprise::io
