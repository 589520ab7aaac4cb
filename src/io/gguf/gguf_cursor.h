// Reads the bytes of a GGUF file value by value. Reading past the end is an error that names what
// was expected there.
#pragma once

#include <c10/util/Exception.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace reprise::io {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian");

class GgufCursor {
 public:
  GgufCursor(std::span<const std::byte> file, const std::string& source)
      : file_(file), source_(source) {}

  template <class T>
  T number(const std::string& what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }

  std::string string(const std::string& what, size_t max_bytes) {
    const auto length = number<uint64_t>(what);
    TORCH_CHECK(length <= max_bytes,
                where(),
                what,
                ": expected a string of at most ",
                max_bytes,
                " bytes, found ",
                length);
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  uint64_t position() const { return position_; }
  uint64_t file_bytes() const { return file_.size(); }
  std::string where() const { return "[gguf] " + source_ + ": "; }

 private:
  std::span<const std::byte> take(uint64_t count, const std::string& what) {
    TORCH_CHECK(count <= file_.size() - position_,
                where(),
                what,
                ": expected ",
                count,
                " bytes at ",
                position_,
                ", found ",
                file_.size() - position_,
                "; the file is truncated");
    const auto bytes = file_.subspan(position_, count);
    position_ += count;
    return bytes;
  }

  std::span<const std::byte> file_;
  const std::string& source_;
  size_t position_ = 0;
};

}  // namespace reprise::io
