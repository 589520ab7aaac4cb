// Parsing the safetensors header. The rules are those of the format's reference
// implementation: offsets tile the data without holes or overlaps and end where the file ends.
#include "io/safetensors/safetensors_header.h"

#include "io/safetensors/safetensors_format.h"

#include <reprise/io/json.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

namespace reprise::io {
namespace {

constexpr size_t kMaxJsonDepth = 8;  // the format needs three
constexpr size_t kMaxDimensions = 64;

const Json& field(const Json& entry, const char* name, const std::string& where) {
  const auto found = entry.find(name);
  TORCH_CHECK(found != entry.end(), where, "expected a field \"", name, "\", found none");
  return *found;
}

at::ScalarType parse_dtype(const Json& value, const std::string& where) {
  TORCH_CHECK(value.is_string(), where, "dtype: expected a string, found ", kind_of(value));
  const auto& name = value.get_ref<const std::string&>();
  const auto dtype = dtype_from_safetensors(name);
  TORCH_CHECK(dtype.has_value(),
              where,
              "dtype: expected one of ",
              safetensors_dtypes(),
              ", found ",
              quoted(name));
  return *dtype;
}

/// A list of non-negative integers.
std::vector<int64_t> parse_numbers(const Json& value, const char* name, const std::string& where) {
  TORCH_CHECK(value.is_array(), where, name, ": expected an array, found ", kind_of(value));
  TORCH_CHECK(value.size() <= kMaxDimensions,
              where,
              name,
              ": expected at most ",
              kMaxDimensions,
              " numbers, found ",
              value.size());
  std::vector<int64_t> numbers;
  numbers.reserve(value.size());
  for (const Json& number : value) {
    TORCH_CHECK(number.is_number_unsigned() &&
                    number.get<uint64_t>() <= std::numeric_limits<int64_t>::max(),
                where,
                name,
                ": expected whole numbers from 0, found ",
                kind_of(number));
    numbers.push_back(number.get<int64_t>());
  }
  return numbers;
}

TensorInfo parse_tensor(const std::string& name,
                        const Json& entry,
                        uint64_t data_begin,
                        const std::string& source) {
  const std::string where = at_tensor(source, name);
  TORCH_CHECK(entry.is_object(), where, "expected an object, found ", kind_of(entry));
  TensorInfo info;
  info.name = name;
  info.dtype = parse_dtype(field(entry, "dtype", where), where);
  info.shape = parse_numbers(field(entry, "shape", where), "shape", where);
  const auto offsets = parse_numbers(field(entry, "data_offsets", where), "data_offsets", where);
  TORCH_CHECK(
      offsets.size() == 2, where, "data_offsets: expected two numbers, found ", offsets.size());
  TORCH_CHECK(offsets[0] <= offsets[1],
              where,
              "data_offsets: expected begin <= end, found [",
              offsets[0],
              ", ",
              offsets[1],
              "]");
  const auto found = static_cast<uint64_t>(offsets[1] - offsets[0]);
  const uint64_t expected = tensor_bytes(info, source);
  TORCH_CHECK(found == expected,
              where,
              "data_offsets: expected ",
              expected,
              " bytes for ",
              c10::IntArrayRef(info.shape),
              " of ",
              safetensors_dtype(info.dtype, name),
              ", found ",
              found);
  info.begin = data_begin + static_cast<uint64_t>(offsets[0]);
  info.end = data_begin + static_cast<uint64_t>(offsets[1]);
  return info;
}

std::map<std::string, std::string> parse_metadata(const Json& value, const std::string& source) {
  const std::string where = "[safetensors] " + source + ": " + std::string(kMetadataKey) + ": ";
  TORCH_CHECK(value.is_object(), where, "expected an object, found ", kind_of(value));
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    TORCH_CHECK(text.is_string(), where, quoted(key), ": expected a string, found ", kind_of(text));
    metadata[key] = text.get<std::string>();
  }
  return metadata;
}

/// Sorts by position. Refuses holes, overlaps, and a file of another length.
void check_tiling(std::vector<TensorInfo>& tensors,
                  uint64_t data_begin,
                  uint64_t file_bytes,
                  const std::string& source) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t position = data_begin;
  for (const TensorInfo& info : tensors) {
    TORCH_CHECK(info.begin == position,
                at_tensor(source, info.name),
                "data_offsets: expected to begin at ",
                position - data_begin,
                ", where the tensor before it ends, found ",
                info.begin - data_begin,
                info.begin < position ? " (an overlap)" : " (a hole)");
    position = info.end;
  }
  TORCH_CHECK(position == file_bytes,
              "[safetensors] ",
              source,
              ": expected a file of ",
              position,
              " bytes by its header, found ",
              file_bytes,
              position > file_bytes ? "; the file is truncated" : "; bytes follow the last tensor");
}

}  // namespace

SafetensorsHeader read_safetensors_header(uint64_t file_bytes,
                                          const ReadBytes& read,
                                          const std::string& source) {
  TORCH_CHECK(file_bytes >= kLengthBytes,
              "[safetensors] ",
              source,
              ": expected a file of at least 8 bytes, found ",
              file_bytes);
  uint64_t length = 0;
  std::memcpy(&length, read(0, kLengthBytes).data(), kLengthBytes);
  TORCH_CHECK(length <= kMaxHeaderBytes,
              "[safetensors] ",
              source,
              ": expected a header of at most ",
              kMaxHeaderBytes,
              " bytes, found ",
              length,
              "; this may be no safetensors file");
  TORCH_CHECK(length <= file_bytes - kLengthBytes,
              "[safetensors] ",
              source,
              ": expected a header of ",
              length,
              " bytes, found ",
              file_bytes - kLengthBytes,
              " bytes after its length; the file is truncated");
  const std::string text = read(kLengthBytes, length);
  TORCH_CHECK(text.starts_with('{'),
              "[safetensors] ",
              source,
              ": expected a header that begins with '{'; this may be no safetensors file");

  const JsonLimits limits = {.max_bytes = kMaxHeaderBytes, .max_depth = kMaxJsonDepth};
  const Json json = parse_json(text, source + " (header)", limits);
  const uint64_t data_begin = kLengthBytes + length;
  SafetensorsHeader header;
  header.tensors.reserve(json.size());
  for (const auto& [name, entry] : json.items()) {
    if (name == kMetadataKey) {
      header.metadata = parse_metadata(entry, source);
    } else {
      header.tensors.push_back(parse_tensor(name, entry, data_begin, source));
    }
  }
  check_tiling(header.tensors, data_begin, file_bytes, source);
  return header;
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file,
                                           const std::string& source) {
  const auto read = [&](uint64_t offset, size_t bytes) {
    return std::string(reinterpret_cast<const char*>(file.data()) + offset, bytes);
  };
  return read_safetensors_header(file.size(), read, source);
}

}  // namespace reprise::io
