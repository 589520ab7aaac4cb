// reprise::dequantize_ on the CPU.
//
// A block has one scale, so its 4-bit codes stand for at most 16 values: they are computed and
// rounded once for the block, and each code then looks its value up.
#include "quant/dequantize.h"
#include "quant/tables.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <array>

namespace reprise::quant {

namespace {

constexpr int64_t kGrainValues = 32768;  // for one thread

// The float32 scale of a block.
class Scales {
 public:
  Scales(const at::Tensor& scales,
         const std::optional<at::Tensor>& nested_scales,
         const std::optional<at::Tensor>& nested_map,
         double offset)
      : offset_(static_cast<float>(offset)) {
    if (!nested_scales) {
      floats_ = scales.const_data_ptr<float>();
      return;
    }
    codes_ = scales.const_data_ptr<uint8_t>();
    nested_ = nested_scales->const_data_ptr<float>();
    map_ = nested_map->const_data_ptr<float>();
  }

  float at(int64_t block) const {
    return floats_ != nullptr ? floats_[block]
                              : map_[codes_[block]] * nested_[block / kNestedBlock] + offset_;
  }

 private:
  const float* floats_ = nullptr;  // null: nested
  const uint8_t* codes_ = nullptr;
  const float* nested_ = nullptr;
  const float* map_ = nullptr;
  float offset_;
};

template <class T>
void fill_block(T* out,
                const uint8_t* bytes,
                int64_t count,
                const std::array<float, kCodes4>& numbers,
                float scale) {
  std::array<T, kCodes4> values;
  for (size_t code = 0; code < kCodes4; ++code) {
    values[code] = static_cast<T>(numbers[code] * scale);
  }
  for (int64_t pair = 0; pair < count / 2; ++pair) {
    const uint8_t byte = bytes[pair];
    out[2 * pair] = values[byte >> 4];
    out[2 * pair + 1] = values[byte & 0xF];
  }
  if (count % 2 != 0) {
    out[count - 1] = values[bytes[count / 2] >> 4];
  }
}

template <class T>
void fill_4bit(at::Tensor& out,
               const at::Tensor& packed,
               const Scales& scales,
               QuantFormat format,
               int64_t block) {
  const int64_t count = out.numel();
  auto* const values = out.mutable_data_ptr<T>();
  const auto* const bytes = packed.const_data_ptr<uint8_t>();
  const int64_t blocks = (count + block - 1) / block;
  const auto fill = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t start = i * block;
      fill_block(values + start,
                 bytes + start / 2,
                 std::min(block, count - start),
                 numbers_of(format),
                 scales.at(i));
    }
  };
  at::parallel_for(0, blocks, std::max<int64_t>(1, kGrainValues / block), fill);
}

template <class T>
void fill_int8(at::Tensor& out, const at::Tensor& packed, const at::Tensor& scales) {
  const int64_t rows = out.size(0), columns = out.size(1);
  auto* const values = out.mutable_data_ptr<T>();
  const auto* const codes = packed.const_data_ptr<int8_t>();
  const auto* const factors = scales.const_data_ptr<float>();
  const auto fill = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const float factor = factors[row];
      for (int64_t i = row * columns; i < (row + 1) * columns; ++i) {
        values[i] = static_cast<T>(static_cast<float>(codes[i]) * factor * kInt8Step);
      }
    }
  };
  at::parallel_for(
      0, rows, std::max<int64_t>(1, kGrainValues / std::max<int64_t>(1, columns)), fill);
}

void dequantize_(at::Tensor& out,
                 const at::Tensor& packed,
                 const at::Tensor& scales,
                 const std::optional<at::Tensor>& nested_scales,
                 const std::optional<at::Tensor>& nested_map,
                 double offset,
                 int64_t format,
                 int64_t block) {
  const auto kind = static_cast<QuantFormat>(format);
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, out.scalar_type(), "dequantize_", [&] {
    if (kind == QuantFormat::Int8) {
      fill_int8<scalar_t>(out, packed, scales);
    } else {
      const Scales factors(scales, nested_scales, nested_map, offset);
      fill_4bit<scalar_t>(out, packed, factors, kind, block);
    }
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(reprise, CPU, library) {
  library.impl("dequantize_", dequantize_);
}

}  // namespace reprise::quant
