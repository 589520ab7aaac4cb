// A file descriptor that closes itself, and the checks of a file that is opened for reading.
#pragma once

#include "io/last_error.h"

#include <c10/util/Exception.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <utility>

namespace reprise::io {

inline constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // opening a pipe would block

/// Closes what it opened.
class Descriptor {
 public:
  Descriptor(const std::filesystem::path& path, int flags) : number_(::open(path.c_str(), flags)) {}
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int number() const { return number_; }
  bool valid() const { return number_ >= 0; }

 private:
  int number_;
};

/// What is known of a file that was opened for reading. Only a regular file has a size to rely on.
inline struct stat check_regular(const Descriptor& file, const std::filesystem::path& path) {
  TORCH_CHECK(file.valid(), "[file] cannot open ", path.string(), ": ", last_error());
  struct stat status {};
  TORCH_CHECK(::fstat(file.number(), &status) == 0,
              "[file] cannot read ",
              path.string(),
              ": ",
              last_error());
  TORCH_CHECK(S_ISREG(status.st_mode),
              "[file] ",
              path.string(),
              ": expected a regular file, found ",
              S_ISDIR(status.st_mode) ? "a folder" : "something else");
  return status;
}

/// Whether only this user can have written it: nobody else owns it or may write to it.
inline bool is_private(const struct stat& status) {
  return status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

}  // namespace reprise::io
