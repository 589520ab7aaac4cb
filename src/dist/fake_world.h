// One process of a world whose other processes do not exist. What a process stores and allocates
// does not depend on the others, so its bytes can be predicted and measured alone. Sums are its own
// values, and gathers return copies of its own part. With size 1 it is the world of a single
// process.
#pragma once

#include "checkpoint/ops/engine_ops.h"

#include <reprise/dist/world.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise {

class FakeWorld final : public World {
 public:
  FakeWorld(int64_t rank, int64_t size) : rank_(rank), size_(size) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  int64_t local_rank() const override { return rank_; }

  PendingCollective start_all_reduce(const at::Tensor& /*value*/,
                                     const std::string& /*what*/) const override {
    return std::make_unique<Done>();
  }

  PendingCollective start_all_gather(const at::Tensor& whole,
                                     const at::Tensor& part,
                                     const std::string& /*what*/) const override {
    const detail::EngineOpsGuard guard;
    for (int64_t i = 0; i < size_; ++i) {
      whole.narrow(0, i * part.numel(), part.numel()).copy_(part);
    }
    return std::make_unique<Done>();
  }

  PendingCollective start_reduce_scatter(const at::Tensor& part,
                                         const at::Tensor& whole,
                                         const std::string& /*what*/) const override {
    const detail::EngineOpsGuard guard;
    part.copy_(whole.narrow(0, rank_ * part.numel(), part.numel()));
    return std::make_unique<Done>();
  }

  std::vector<std::string> all_gather(const std::string& own,
                                      const std::string& /*what*/) const override {
    return std::vector<std::string>(static_cast<size_t>(size_), own);
  }

 private:
  class Done final : public Collective {
   public:
    void wait() override {}
  };

  int64_t rank_, size_;
};

}  // namespace reprise
