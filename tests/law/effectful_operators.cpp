#include "law/effectful_operators.h"

#include <reprise/policy.h>

#include <torch/torch.h>

#include <atomic>
#include <tuple>

namespace reprise::testing::effectful {
namespace {

std::atomic<int> count{0};

void note(const at::Tensor&) {
  ++count;
}

at::Tensor scaled_kernel(const at::Tensor& x) {
  return x * ++count;
}

struct Scale : torch::autograd::Function<Scale> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    auto y = scaled(x);
    context->save_for_backward({x, y});
    return y;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list grads) {
    const auto saved = context->get_saved_variables();
    return {grads[0] * saved[1] / saved[0]};
  }
};

at::Tensor scaled_with_grad(const at::Tensor& x) {
  return Scale::apply(x);
}

at::Tensor pass_kernel(const at::Tensor& x) {
  ++count;
  return x;
}

std::tuple<std::vector<at::Tensor>, std::vector<int64_t>> parts_kernel(const at::Tensor& x) {
  ++count;
  const auto y = x.detach();
  return {{y + count.load(), y * 2}, {x.size(0), count.load()}};
}

at::Tensor noise_kernel(const at::Tensor& x) {
  ++count;
  return at::rand(x.sizes());
}

at::Tensor logging_exp_kernel(const at::Tensor& x) {
  report(x);
  return x.exp();
}

at::Tensor view_kernel(const at::Tensor& x) {
  ++count;
  return x.view({-1});
}

at::Tensor both_kernel(const at::Tensor& x) {
  ++count;
  return x * 2;
}

struct Hidden : torch::autograd::Function<Hidden> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    ++count;
    return x.clone();
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                               torch::autograd::tensor_list grads) {
    return grads;
  }
};

at::Tensor hidden_with_grad(const at::Tensor& x) {
  return Hidden::apply(x);
}

}  // namespace

int runs() {
  return count;
}

void reset() {
  count = 0;
}

}  // namespace reprise::testing::effectful

namespace effectful = reprise::testing::effectful;

TORCH_LIBRARY(reprise_once, m) {
  m.def("log(Tensor x) -> ()");
  m.def("tick", [] { effectful::note({}); });
  m.def("scaled(Tensor x) -> Tensor");
  m.def("identity(Tensor x) -> Tensor", &effectful::pass_kernel);
  m.def("ticket() -> int", [] { return int64_t{++effectful::count}; });
  m.def("parts(Tensor x) -> (Tensor[], int[])");
  m.def("noise(Tensor x) -> Tensor");
  m.def("logging_exp(Tensor x) -> Tensor");
  m.def("view(Tensor x) -> Tensor");
  m.def("both(Tensor x) -> Tensor", &effectful::both_kernel);
  m.def("hidden(Tensor x) -> Tensor");
  m.def("unclear", [](const at::Tensor& x) { effectful::note(x); });
  m.def("writes(Tensor(a!) x) -> ()", [](const at::Tensor& x) { x.add_(1); });
  m.def("dict(Tensor x) -> Dict(str, Tensor)");
}
TORCH_LIBRARY_IMPL(reprise_once, CPU, m) {
  m.impl("log", &effectful::note);
  m.impl("scaled", &effectful::scaled_kernel);
  m.impl("parts", &effectful::parts_kernel);
  m.impl("noise", &effectful::noise_kernel);
  m.impl("logging_exp", &effectful::logging_exp_kernel);
  m.impl("view", &effectful::view_kernel);
  m.impl("hidden", [](const at::Tensor& x) { return x.clone(); });
}
TORCH_LIBRARY_IMPL(reprise_once, Autograd, m) {
  m.impl("scaled", &effectful::scaled_with_grad);
  m.impl("hidden", &effectful::hidden_with_grad);
}

namespace {
[[maybe_unused]] const bool declared = [] {
  for (const char* name :
       {"scaled", "identity", "ticket", "parts", "noise", "view", "both", "hidden"}) {
    reprise::register_effectful_op(std::string("reprise_once::") + name);
  }
  return true;
}();
}  // namespace
