// The bytes of a fuzzer as a file, for code that reads files by name: in memory, so that it costs
// no disk.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

namespace reprise::testing {

class FuzzedFile {
 public:
  explicit FuzzedFile(std::span<const uint8_t> bytes) : descriptor_(::memfd_create("fuzz", 0)) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count <= 0) {
        std::abort();
      }
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
  }
  ~FuzzedFile() { ::close(descriptor_); }
  FuzzedFile(const FuzzedFile&) = delete;
  FuzzedFile& operator=(const FuzzedFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace reprise::testing
