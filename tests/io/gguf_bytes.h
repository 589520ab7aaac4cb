// Builds GGUF files byte by byte, so that every field can be a lie.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace reprise::testing {

/// A value in the bytes of the format: numbers little-endian, strings behind their length.
template <class T>
std::string packed(T value) {
  static_assert(std::is_arithmetic_v<T>);
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::string packed_string(const std::string& text) {
  return packed(uint64_t{text.size()}) + text;
}

struct GgufBytes {
  std::string magic = "GGUF";
  uint32_t version = 3;
  std::vector<std::string> values = {};   ///< key, type, value
  std::vector<std::string> tensors = {};  ///< entries of the table
  uint64_t extra_values = 0;              ///< announced, but not there
  uint64_t extra_tensors = 0;
  size_t data_bytes = 0;

  GgufBytes& value(const std::string& key, uint32_t type, const std::string& bytes) {
    values.push_back(packed_string(key) + packed(type) + bytes);
    return *this;
  }

  GgufBytes& string(const std::string& key, const std::string& text) {
    return value(key, 8, packed_string(text));
  }

  GgufBytes& array(const std::string& key,
                   uint32_t type,
                   uint64_t count,
                   const std::string& bytes) {
    return value(key, 9, packed(type) + packed(count) + bytes);
  }

  GgufBytes& tensor(const std::string& name,
                    const std::vector<int64_t>& sizes,
                    uint32_t type,
                    uint64_t offset) {
    std::string entry = packed_string(name) + packed(static_cast<uint32_t>(sizes.size()));
    for (const int64_t size : sizes) {
      entry += packed(size);
    }
    tensors.push_back(entry + packed(type) + packed(offset));
    return *this;
  }

  GgufBytes& data(size_t bytes) {
    data_bytes = bytes;
    return *this;
  }

  std::string bytes(size_t alignment = 32) const {
    std::string file = magic + packed(version) + packed(tensors.size() + extra_tensors) +
                       packed(values.size() + extra_values);
    for (const std::string& one : values) {
      file += one;
    }
    for (const std::string& one : tensors) {
      file += one;
    }
    if (data_bytes > 0) {
      file.resize((file.size() + alignment - 1) / alignment * alignment, '\0');
      file.append(data_bytes, '\1');
    }
    return file;
  }
};

}  // namespace reprise::testing
