// Levels of functorch in C++ (vmap), beside regions, inside and around them.
#include "law/programs.h"

#include <ATen/functorch/DynamicLayer.h>

namespace reprise::testing {
namespace {

/// In its scope tensors may be batched.
class BatchLevel {
 public:
  explicit BatchLevel(int64_t size)
      : size_(size),
        level_(at::functorch::initAndPushDynamicLayer(at::functorch::TransformType::Vmap,
                                                      c10::SymInt(size),
                                                      at::functorch::RandomnessType::Same)) {}
  ~BatchLevel() { at::functorch::popDynamicLayerAndDeleteMetadata(); }
  BatchLevel(const BatchLevel&) = delete;
  BatchLevel& operator=(const BatchLevel&) = delete;

  at::Tensor enter(const at::Tensor& tensor) const { return at::_add_batch_dim(tensor, 0, level_); }
  at::Tensor leave(const at::Tensor& tensor) const {
    return at::_remove_batch_dim(tensor, level_, size_, 0);
  }

 private:
  int64_t size_;
  int64_t level_;
};

/// Row by row.
at::Tensor rows(const at::Tensor& x, const at::Tensor& w) {
  const BatchLevel level(x.size(0));
  return level.leave((w * level.enter(x).sin()).exp().tanh());
}

TEST(LawFunctorch, VmapBesideARegion) {
  law(
      [](const Way& way) {
        auto x = leaf({3, 4}), w = sine_leaf({4});
        auto h = rows(x, w);
        h = way([w](at::Tensor t) { return torch::mm(t, t.t()).tanh() * w.sum(); }, h);
        rows(h, h.sum(0)).sum().backward();
        return Tensors{x.grad(), w.grad()};
      },
      ways());
}

TEST(LawFunctorch, VmapInsideARegion) {
  law_or_refused(
      [](const Way& way) {
        auto x = leaf({3, 4}), w = sine_leaf({4});
        way([](at::Tensor t, at::Tensor v) { return rows(torch::mm(t, t.t()).mm(t), v); }, x, w)
            .sum()
            .backward();
        return Tensors{x.grad(), w.grad()};
      },
      "[reprise]",
      all_ways());
}

TEST(LawFunctorch, ARegionInsideVmap) {
  law_or_refused(
      [](const Way& way) {
        auto x = leaf({3, 4}), w = sine_leaf({4});
        at::Tensor y;
        {
          const BatchLevel level(3);
          const auto block = [](at::Tensor t, at::Tensor v) { return (t.sin() * v).exp().tanh(); };
          y = level.leave(way(block, level.enter(x), w));
        }
        y.sum().backward();
        return Tensors{x.grad(), w.grad()};
      },
      "[reprise]",
      all_ways());
}

}  // namespace
}  // namespace reprise::testing
