#include "out_of_memory/failing_allocation.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <new>
#include <string_view>

namespace reprise::testing {
namespace {

struct Plan {
  bool is_active = false;
  Allocations kind = Allocations::Tensors;
  uint64_t failing = 0;
  uint64_t count = 0;
};
thread_local Plan plan;

/// Counts an allocation; true if it is the one that fails.
bool fails(Allocations kind) {
  return plan.is_active && plan.kind == kind && ++plan.count == plan.failing;
}

/// Whether the code at this address is in a library that allocates tensors.
bool allocates_tensors(const void* caller) {
  Dl_info found{};
  if (!plan.is_active || ::dladdr(caller, &found) == 0) {
    return false;
  }
  const std::string_view file = found.dli_fname;
  const auto name = file.substr(file.rfind('/') + 1);
  return name.starts_with("libc10") || name.starts_with("libreprise");
}

void* allocate(size_t bytes) {
  void* const memory = fails(Allocations::Objects) ? nullptr : std::malloc(bytes > 0 ? bytes : 1);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

FailingAllocation::FailingAllocation(Allocations kind, uint64_t failing) {
  plan = {.is_active = true, .kind = kind, .failing = failing};
}

FailingAllocation::~FailingAllocation() {
  plan.is_active = false;
}

uint64_t FailingAllocation::count() const {
  return plan.count;
}

}  // namespace reprise::testing

#define REPRISE_REPLACES __attribute__((visibility("default")))

// NOLINTBEGIN(misc-new-delete-overloads): those that are left call these
REPRISE_REPLACES void* operator new(size_t bytes) {
  return reprise::testing::allocate(bytes);
}
REPRISE_REPLACES void operator delete(void* memory) noexcept {
  std::free(memory);
}
REPRISE_REPLACES void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}
// NOLINTEND(misc-new-delete-overloads)

extern "C" REPRISE_REPLACES int posix_memalign(void** memory, size_t align, size_t bytes) noexcept {
  using Function = int(void**, size_t, size_t);
  static auto* const original = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "posix_memalign"));
  const bool fails = reprise::testing::allocates_tensors(__builtin_return_address(0)) &&
                     reprise::testing::fails(reprise::testing::Allocations::Tensors);
  return fails ? ENOMEM : original(memory, align, bytes);
}
