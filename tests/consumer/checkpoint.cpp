// A user's program on the installed package: one checkpointed region, one backward.
#include <ATen/ATen.h>
#include <reprise/checkpoint.h>

#include <iostream>

int main() {
  at::Tensor weight = at::randn({8, 8}).requires_grad_();
  at::Tensor x = at::randn({4, 8}).requires_grad_();
  auto layer = [weight](const at::Tensor& input) { return at::tanh(at::mm(input, weight)); };

  at::Tensor y = reprise::checkpoint(layer, x);
  y.sum().backward();
  std::cout << "gradient norm " << weight.grad().norm().item<double>() << '\n';
  return x.grad().defined() ? 0 : 1;
}
