// The order of accelerate's SeedableRandomSampler, which transformers' Trainer uses: every epoch
// has its own generator, seeded with seed + epoch. The order of an epoch does not depend on earlier
// ones, so a resumed run needs no generator state.
#include <reprise/data/dataset.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <numeric>

namespace reprise {

std::vector<int64_t> epoch_order(int64_t size, uint64_t seed, int64_t epoch, bool shuffle) {
  TORCH_CHECK(size >= 0, "[data] expected a number of examples, found ", size);
  TORCH_CHECK(epoch >= 0, "[data] expected an epoch counted from 0, found ", epoch);
  std::vector<int64_t> order(static_cast<size_t>(size));
  if (!shuffle) {
    std::iota(order.begin(), order.end(), int64_t{0});
    return order;
  }
  const at::Generator generator =
      at::detail::createCPUGenerator(seed + static_cast<uint64_t>(epoch));
  at::Tensor numbers = at::from_blob(order.data(), {size}, at::kLong);
  at::randperm_out(numbers, size, generator);
  return order;
}

}  // namespace reprise
