#include "quant/quantized_rows.h"

#include "ops/operator.h"
#include "quant/dequantize.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <utility>

namespace reprise::quant {

namespace {

// One operator, so that policies and plans see one result: the matrix. The lists of nested scales
// and maps are empty without double quantisation.
at::Tensor dequantized_rows(at::TensorList packed,
                            at::TensorList scales,
                            at::TensorList nested_scales,
                            at::TensorList nested_maps,
                            at::ArrayRef<double> offsets,
                            at::IntArrayRef outs,
                            int64_t in,
                            int64_t format,
                            int64_t block,
                            at::ScalarType type) {
  static const auto fill =
      ops::find_operator<decltype(reference::dequantize_)>("reprise::dequantize_");
  auto matrix = at::empty({c10::sum_integers(outs), in}, packed.front().options().dtype(type));
  const auto nth = [](at::TensorList list, size_t i) {
    return list.empty() ? std::nullopt : std::optional(list[i]);
  };
  int64_t begin = 0;
  for (size_t i = 0; i < packed.size(); ++i) {
    auto rows = matrix.narrow(0, begin, outs[i]);
    fill.call(rows,
              packed[i],
              scales[i],
              nth(nested_scales, i),
              nth(nested_maps, i),
              offsets[i],
              format,
              block);
    begin += outs[i];
  }
  return matrix;
}

class QuantizedRows final : public ops::WeightSource {
 public:
  explicit QuantizedRows(std::vector<std::shared_ptr<const QuantizedWeight>> weights)
      : weights_(std::move(weights)) {
    for (const auto& weight : weights_) {
      TORCH_INTERNAL_ASSERT(can_be_joined(*weights_.front(), *weight));
      packed_.push_back(weight->packed);
      scales_.push_back(weight->scales);
      if (weight->is_nested()) {
        nested_scales_.push_back(weight->nested_scales);
        nested_maps_.push_back(weight->nested_map);
      }
      offsets_.push_back(weight->offset);
      outs_.push_back(weight->out);
    }
  }

  int64_t out() const override { return c10::sum_integers(outs_); }
  int64_t in() const override { return weights_.front()->in; }
  at::Device device() const override { return weights_.front()->device(); }

  at::Tensor make(at::ScalarType type) const override {
    static const auto op =
        ops::find_operator<decltype(dequantized_rows)>("reprise::dequantized_rows");
    const QuantScheme& scheme = weights_.front()->scheme;
    return op.call(packed_,
                   scales_,
                   nested_scales_,
                   nested_maps_,
                   offsets_,
                   outs_,
                   in(),
                   static_cast<int64_t>(scheme.format),
                   scheme.block,
                   type);
  }

 private:
  std::vector<std::shared_ptr<const QuantizedWeight>> weights_;
  std::vector<at::Tensor> packed_, scales_, nested_scales_, nested_maps_;
  std::vector<double> offsets_;
  std::vector<int64_t> outs_;
};

}  // namespace

bool can_be_joined(const QuantizedWeight& a, const QuantizedWeight& b) {
  return a.scheme == b.scheme && a.in == b.in && a.device() == b.device();
}

std::shared_ptr<const ops::WeightSource> quantized_rows(
    std::vector<std::shared_ptr<const QuantizedWeight>> weights) {
  return std::make_shared<const QuantizedRows>(std::move(weights));
}

TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.def(
      "dequantized_rows(Tensor[] packed, Tensor[] scales, Tensor[] nested_scales, "
      "Tensor[] nested_maps, float[] offsets, int[] outs, int width, int format, int block, "
      "ScalarType dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("dequantized_rows", dequantized_rows);
}

}  // namespace reprise::quant
