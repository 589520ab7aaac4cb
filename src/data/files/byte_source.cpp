// Plain files, and the choice between plain and gzipped ones. gzip is recognised by its two magic
// bytes, which no JSON text begins with, because files often lose their ".gz" suffix.
#include "data/files/byte_source.h"

#include "data/files/gzip.h"

#include <c10/util/Exception.h>

#include <fstream>
#include <ios>
#include <string>
#include <system_error>
#include <utility>

namespace reprise::data {
namespace {

class PlainFile final : public ByteSource {
 public:
  explicit PlainFile(const std::filesystem::path& path) : path_(path) {
    std::error_code failed;
    // A folder can be opened but not read, and a pipe cannot be read twice.
    TORCH_CHECK(std::filesystem::is_regular_file(path, failed),
                "[data] ",
                path.string(),
                ": expected a regular file, found ",
                failed ? failed.message() : "something else");
    size_ = std::filesystem::file_size(path);
    file_.open(path, std::ios::binary);
    TORCH_CHECK(file_.is_open(), "[data] ", path.string(), ": cannot be opened");
  }

  size_t read(std::span<char> buffer) override {
    file_.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    TORCH_CHECK(!file_.bad(), "[data] ", path_.string(), ": cannot be read");
    const auto count = static_cast<size_t>(file_.gcount());
    done_ += count;
    return count;
  }

  double fraction() const override {
    return size_ == 0 ? 1.0 : static_cast<double>(done_) / static_cast<double>(size_);
  }

  bool is_gzip() {
    const bool found = file_.get() == kGzipMagic[0] && file_.get() == kGzipMagic[1];
    file_.clear();  // a file of one byte sets eofbit
    file_.seekg(0);
    return found;
  }

 private:
  std::filesystem::path path_;
  std::ifstream file_;
  uintmax_t size_ = 0;
  uintmax_t done_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::filesystem::path& path) {
  auto file = std::make_unique<PlainFile>(path);
  if (!file->is_gzip()) {
    return file;
  }
  return std::make_unique<GzipSource>(std::move(file), path.string());
}

}  // namespace reprise::data
