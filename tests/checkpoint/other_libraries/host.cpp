// A process in which another library has come before Reprise: it looks at the dispatch keys as
// LibTorch leaves them, takes one, and only then loads the module with the regions.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <dlfcn.h>

#include <cstdio>
#include <string_view>

namespace {

int calls = 0;

void answer(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  ++calls;
  torch::jit::drop(*stack, op.schema().arguments().size());
  const c10::impl::ExcludeDispatchKeyGuard below(c10::DispatchKey::Fake);
  stack->emplace_back(at::full({2}, 7));
}

/// Kernels and fallbacks that LibTorch has for the key. None: see Note [Two dispatch keys].
int uses_of(c10::DispatchKey key) {
  auto& dispatcher = c10::Dispatcher::singleton();
  int uses = dispatcher.hasBackendFallbackForDispatchKey(key) ? 1 : 0;
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (op && op->hasKernelForDispatchKey(key)) {
      std::printf("%s has a kernel for %s\n", c10::toString(name).c_str(), c10::toString(key));
      ++uses;
    }
  }
  std::printf("%d uses of %s by LibTorch\n", uses, c10::toString(key));
  return uses;
}

int run(const char* module, const char* test) {
  void* const library = dlopen(module, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  return reinterpret_cast<int (*)()>(dlsym(library, test))();
}

/// What carries the key is the other library's before and after, and regions work.
int beside_fallback(const char* module) {
  const torch::Library others(
      torch::Library::IMPL, "_", c10::DispatchKey::Fake, __FILE__, __LINE__);
  const auto answers = [] {
    const c10::impl::IncludeDispatchKeyGuard included(c10::DispatchKey::Fake);
    return at::ones({2});
  };
  const_cast<torch::Library&>(others).fallback(
      torch::CppFunction::makeFromBoxedFunction<&answer>());
  answers();
  const int failures = run(module, "train");
  const bool still_answers = answers().sum().item<float>() == 14 && calls == 2;
  std::printf("%d failures, %d calls of the other library\n", failures, calls);
  return failures == 0 && still_answers ? 0 : 1;
}

int beside_taken_write_key(const char* module) {
  torch::Library others(
      torch::Library::IMPL, "_", c10::DispatchKey::DeferredInit, __FILE__, __LINE__);
  others.fallback(torch::CppFunction::makeFallthrough());
  return run(module, "is_refused");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view test = argc > 1 ? argv[1] : "";
  if (test == "libtorch") {
    return uses_of(c10::DispatchKey::Fake) + uses_of(c10::DispatchKey::DeferredInit) == 0 ? 0 : 1;
  }
  return test == "fallback" ? beside_fallback(argv[2]) : beside_taken_write_key(argv[2]);
}
