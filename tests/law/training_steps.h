// Training steps of a module in a region.
#pragma once

#include "law/programs.h"

namespace reprise::testing {

/// Two training steps of `module`, called by `run` in a region.
template <class Holder>
void two_steps(Holder made,
               at::IntArrayRef sizes,
               const std::function<at::Tensor(Holder&, at::Tensor)>& run,
               const std::vector<Way>& others = all_ways()) {
  std::vector<at::Tensor> start;
  fill_with_sines(*made);
  for (const auto& buffer : made->buffers()) {
    start.push_back(buffer.clone());
  }
  const auto shape = sizes.vec();
  law(
      [&](const Way& way) {
        fill_with_sines(*made);
        made->zero_grad();
        auto buffers = made->buffers();
        for (size_t i = 0; i < buffers.size(); ++i) {
          buffers[i].copy_(start[i]);
        }
        auto x = sine_leaf(shape);
        const auto block = [made, run](at::Tensor h) {
          auto module = made;
          return run(module, h);
        };
        for (int step = 0; step < 2; ++step) {
          way(block, x * 1).square().sum().backward();
        }
        auto contents = contents_of(*made);
        for (auto& tensor : contents) {
          tensor = tensor.defined() ? tensor.clone() : tensor;
        }
        return joined({x.grad()}, contents);
      },
      others);
}

template <class Holder>
void two_steps(Holder made, at::IntArrayRef sizes, const std::vector<Way>& others = all_ways()) {
  two_steps<Holder>(
      made, sizes, [](Holder& module, at::Tensor h) { return module->forward(h); }, others);
}

}  // namespace reprise::testing
