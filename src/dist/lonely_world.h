// A place in a world whose other processes are not there. What one process keeps and allocates is
// the same without them, so its bytes can be predicted, and measured, alone. Sums are its own
// values, and what it gathers are copies of its own part. The only place in a world of one is that
// of a process alone.
#pragma once

#include <reprise/dist/world.h>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise {

class LonelyWorld final : public World {
 public:
  LonelyWorld(int64_t rank, int64_t size) : rank_(rank), size_(size) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  int64_t local_rank() const override { return rank_; }

  PendingCollective start_sum(const at::Tensor& /*value*/,
                              const std::string& /*what*/) const override {
    return std::make_unique<Done>();
  }

  PendingCollective start_gather(const at::Tensor& whole,
                                 const at::Tensor& part,
                                 const std::string& /*what*/) const override {
    const at::NoGradGuard no_grad;
    for (int64_t i = 0; i < size_; ++i) {
      whole.narrow(0, i * part.numel(), part.numel()).copy_(part);
    }
    return std::make_unique<Done>();
  }

  PendingCollective start_reduce(const at::Tensor& part,
                                 const at::Tensor& whole,
                                 const std::string& /*what*/) const override {
    const at::NoGradGuard no_grad;
    part.copy_(whole.narrow(0, rank_ * part.numel(), part.numel()));
    return std::make_unique<Done>();
  }

  std::vector<std::string> gather(const std::string& own,
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
