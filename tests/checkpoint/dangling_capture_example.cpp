// The trap that only C++ has: a region that captures by reference what dies before backward.
// Recompute then reads a dead object. The library cannot see it; AddressSanitizer can, and this
// program is run under it and must be reported.
#include <reprise/checkpoint.h>

#include <torch/torch.h>

#include <cstdio>

int main() {
  const auto x = torch::ones({4}).requires_grad_();
  at::Tensor y;
  {
    torch::nn::Linear linear(4, 4);
    // Wrong: `linear` is gone at backward. Right: [linear]() mutable, which copies a handle.
    y = reprise::checkpoint([&linear](const at::Tensor& t) { return linear(t).exp(); }, x);
  }
  y.sum().backward();
  std::puts("the dangling capture went unnoticed");
  return 0;
}
