// The table of dtypes, and tensor sizes checked for overflow.
#include "io/safetensors/safetensors_format.h"

#include <c10/util/ArrayRef.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <utility>

namespace reprise::io {
namespace {

/// Sorted by the rank that the reference implementation gives a dtype.
constexpr std::array<std::pair<std::string_view, at::ScalarType>, 15> kDtypes = {{
    {"BOOL", at::kBool},
    {"U8", at::kByte},
    {"I8", at::kChar},
    {"F8_E5M2", at::kFloat8_e5m2},
    {"F8_E4M3", at::kFloat8_e4m3fn},
    {"I16", at::kShort},
    {"U16", at::kUInt16},
    {"F16", at::kHalf},
    {"BF16", at::kBFloat16},
    {"I32", at::kInt},
    {"U32", at::kUInt32},
    {"F32", at::kFloat},
    {"F64", at::kDouble},
    {"I64", at::kLong},
    {"U64", at::kUInt64},
}};

}  // namespace

std::optional<at::ScalarType> dtype_from_safetensors(std::string_view name) {
  for (const auto& [known, dtype] : kDtypes) {
    if (known == name) {
      return dtype;
    }
  }
  return std::nullopt;
}

std::string_view safetensors_dtype(at::ScalarType dtype, const std::string& tensor) {
  for (const auto& [name, known] : kDtypes) {
    if (known == dtype) {
      return name;
    }
  }
  TORCH_CHECK(false,
              "[safetensors] tensor ",
              quoted(tensor),
              ": the format stores ",
              safetensors_dtypes(),
              "; found ",
              c10::toString(dtype));
}

std::string safetensors_dtypes() {
  std::string names;
  for (const auto& [name, dtype] : kDtypes) {
    names += names.empty() ? "" : ", ";
    names += name;
  }
  return names;
}

int safetensors_dtype_rank(at::ScalarType dtype) {
  const auto* const found = std::find_if(
      kDtypes.begin(), kDtypes.end(), [&](const auto& known) { return known.second == dtype; });
  return static_cast<int>(found - kDtypes.begin());
}

uint64_t tensor_bytes(const TensorInfo& info, const std::string& source) {
  // A dimension of 0 counts as 1, so that the strides of an empty tensor cannot overflow either.
  int64_t bytes = static_cast<int64_t>(c10::elementSize(info.dtype));
  bool empty = false;
  for (const int64_t size : info.shape) {
    empty = empty || size == 0;
    TORCH_CHECK(!__builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes),
                at_tensor(source, info.name),
                "shape: the bytes of ",
                c10::IntArrayRef(info.shape),
                " do not fit 63 bits");
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

std::string at_tensor(const std::string& source, const std::string& name) {
  return "[safetensors] " + source + ": tensor " + quoted(name) + ": ";
}

std::string quoted(const std::string& text) {
  constexpr size_t kLongest = 200;
  std::string shown = "\"" + text.substr(0, kLongest);
  if (text.size() > kLongest) {
    shown += "...";
  }
  return shown + "\"";
}

}  // namespace reprise::io
