// Parses the header of a GGUF file and its table of tensors. Counts in the file are not trusted:
// memory grows only with bytes that have been read.
#include "io/gguf/gguf_header.h"

#include "io/gguf/gguf_cursor.h"
#include "io/gguf/gguf_dequantize.h"
#include "io/gguf/gguf_metadata.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <set>

namespace reprise::io {
namespace {

constexpr size_t kMaxNameBytes = 1'024;
constexpr uint32_t kMaxDimensions = 4;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxAlignment = uint64_t{1} << 20;

void check_start(GgufCursor& cursor) {
  const auto magic = cursor.number<uint32_t>("the magic number");
  TORCH_CHECK(magic == 0x46554747, cursor.where(), "expected a file that begins with \"GGUF\"");
  const auto version = cursor.number<uint32_t>("the version");
  constexpr uint32_t kLowBytes = 0xFFFF;  // zero in a big-endian file
  TORCH_CHECK((version & kLowBytes) != 0 || version == 0,
              cursor.where(),
              "expected a little-endian file, found a big-endian one");
  TORCH_CHECK(version == 2 || version == 3,
              cursor.where(),
              "expected GGUF version 2 or 3, found ",
              version);
}

uint64_t alignment_of(const GgufMetadata& metadata, const std::string& where) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) {
    return kDefaultAlignment;
  }
  const bool good = found->second.is_number_unsigned() &&
                    std::has_single_bit(found->second.get<uint64_t>()) &&
                    found->second.get<uint64_t>() <= kMaxAlignment;
  TORCH_CHECK(good,
              where,
              "general.alignment: expected a power of two up to ",
              kMaxAlignment,
              ", found ",
              kind_of(found->second));
  return found->second.get<uint64_t>();
}

/// Dimensions come in ggml's order, the contiguous one first.
std::vector<int64_t> read_shape(GgufCursor& cursor, const std::string& what) {
  const auto count = cursor.number<uint32_t>(what);
  TORCH_CHECK(count <= kMaxDimensions,
              cursor.where(),
              what,
              ": expected at most ",
              kMaxDimensions,
              " dimensions, found ",
              count);
  std::vector<int64_t> shape(count);
  int64_t elements = 1;
  for (uint32_t i = 0; i < count; ++i) {
    const auto size = cursor.number<int64_t>(what);
    TORCH_CHECK(size > 0 && !__builtin_mul_overflow(elements, size, &elements) &&
                    elements <= std::numeric_limits<int64_t>::max() / 8,
                cursor.where(),
                what,
                ": expected dimensions from 1 whose product fits 60 bits, found ",
                size);
    shape[count - 1 - i] = size;
  }
  return shape;
}

uint64_t bytes_of(const GgufTensor& tensor, const std::string& where) {
  const GgufBlock block = gguf_block(tensor.type);
  const auto row = static_cast<uint64_t>(tensor.shape.empty() ? 1 : tensor.shape.back());
  TORCH_CHECK(row % block.elements == 0,
              where,
              "expected rows of a multiple of ",
              block.elements,
              " elements for ",
              gguf_type_name(static_cast<uint32_t>(tensor.type)),
              ", found ",
              row);
  uint64_t blocks = row / block.elements;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    blocks *= static_cast<uint64_t>(tensor.shape[i]);  // at most the elements, which fit 60 bits
  }
  uint64_t bytes = 0;
  TORCH_CHECK(!__builtin_mul_overflow(blocks, block.bytes, &bytes), where, "is too large");
  return bytes;
}

/// Leaves `begin` relative to the data section, whose start is known only after the table, and the
/// number of bytes in `end`.
GgufTensor read_tensor(GgufCursor& cursor, uint64_t index, uint64_t alignment) {
  GgufTensor tensor;
  tensor.name = cursor.string("the name of tensor " + std::to_string(index), kMaxNameBytes);
  const std::string what = "tensor \"" + tensor.name + "\"";
  tensor.shape = read_shape(cursor, what);
  const auto number = cursor.number<uint32_t>(what);
  const auto type = gguf_type_from_number(number);
  TORCH_CHECK(type.has_value(),
              cursor.where(),
              what,
              ": expected one of ",
              gguf_types(),
              ", found ",
              gguf_type_name(number));
  tensor.type = *type;
  tensor.begin = cursor.number<uint64_t>(what);
  TORCH_CHECK(tensor.begin % alignment == 0,
              cursor.where(),
              what,
              ": expected an offset that is a multiple of ",
              alignment,
              ", found ",
              tensor.begin);
  tensor.end = bytes_of(tensor, cursor.where() + what + ": ");
  return tensor;
}

/// Turns offsets and sizes into positions in the file. Refuses tensors that lie outside of the file
/// or overlap.
void place_tensors(std::vector<GgufTensor>& tensors,
                   const GgufCursor& cursor,
                   uint64_t data_begin) {
  const uint64_t data_bytes =
      cursor.file_bytes() > data_begin ? cursor.file_bytes() - data_begin : 0;
  std::vector<const GgufTensor*> by_position;
  by_position.reserve(tensors.size());
  for (GgufTensor& tensor : tensors) {
    const uint64_t bytes = tensor.end;
    TORCH_CHECK(tensor.begin <= data_bytes && bytes <= data_bytes - tensor.begin,
                cursor.where(),
                "tensor \"",
                tensor.name,
                "\": expected ",
                bytes,
                " bytes at ",
                tensor.begin,
                " of the data, found ",
                data_bytes,
                " bytes of data in all; the file is truncated");
    tensor.begin += data_begin;
    tensor.end = tensor.begin + bytes;
    by_position.push_back(&tensor);
  }
  std::sort(by_position.begin(), by_position.end(), [](const GgufTensor* a, const GgufTensor* b) {
    return a->begin < b->begin;
  });
  for (size_t i = 1; i < by_position.size(); ++i) {
    TORCH_CHECK(by_position[i - 1]->end <= by_position[i]->begin,
                cursor.where(),
                "tensor \"",
                by_position[i]->name,
                "\" overlaps \"",
                by_position[i - 1]->name,
                "\"");
  }
}

void refuse_duplicates(const std::vector<GgufTensor>& tensors, const std::string& where) {
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) {
    TORCH_CHECK(
        names.insert(tensor.name).second, where, "tensor \"", tensor.name, "\" appears twice");
  }
}

}  // namespace

GgufHeader parse_gguf_header(std::span<const std::byte> file, const std::string& source) {
  GgufCursor cursor(file, source);
  check_start(cursor);
  const auto tensor_count = cursor.number<uint64_t>("the number of tensors");
  const auto value_count = cursor.number<uint64_t>("the number of values");
  GgufHeader header;
  header.metadata = read_gguf_metadata(cursor, value_count);
  const uint64_t alignment = alignment_of(header.metadata, cursor.where());
  for (uint64_t i = 0; i < tensor_count; ++i) {
    header.tensors.push_back(read_tensor(cursor, i, alignment));
  }
  refuse_duplicates(header.tensors, cursor.where());
  place_tensors(
      header.tensors, cursor, (cursor.position() + alignment - 1) / alignment * alignment);
  return header;
}

}  // namespace reprise::io
