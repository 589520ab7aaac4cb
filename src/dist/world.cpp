// What all worlds have in common, and the world of a single process.
#include <reprise/dist/error_text.h>
#include <reprise/dist/world.h>

#include "dist/fake_world.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>

namespace reprise {

Collective::~Collective() = default;
World::~World() = default;

at::Tensor World::sum(const at::Tensor& value, const std::string& what) const {
  auto total = value.detach().clone(at::MemoryFormat::Contiguous);
  start_all_reduce(total, what)->wait();
  return total;
}

double World::sum(double value, const std::string& what) const {
  if (size() == 1) {
    return value;
  }
  return sum(at::scalar_tensor(value, at::kDouble), what).item<double>();
}

double World::max(double value, const std::string& what) const {
  if (size() == 1) {
    return value;
  }
  const auto all = at::empty({size()}, at::kDouble);
  start_all_gather(all, at::full({1}, value, at::kDouble), what)->wait();
  return all.max().item<double>();
}

void World::barrier(const std::string& what) const {
  if (size() > 1) {
    sum(0.0, what);
  }
}

std::string World::broadcast(const std::string& own, const std::string& what) const {
  return all_gather(is_first() ? own : std::string(), what).front();
}

// Each process sends an empty string for success, or "!" and its error.
void World::run_on_all(const std::string& what, const std::function<void()>& work) const {
  if (size() == 1) {
    work();
    return;
  }
  std::exception_ptr error;
  std::string status;
  try {
    work();
  } catch (const std::exception& failure) {
    error = std::current_exception();
    status = "!" + error_text(failure);
  }
  const auto all = all_gather(status, what);
  if (error) {
    std::rethrow_exception(error);
  }
  const auto failed =
      std::find_if(all.begin(), all.end(), [](const auto& text) { return !text.empty(); });
  TORCH_CHECK(failed == all.end(),
              "[world] ",
              what,
              " failed in rank ",
              failed - all.begin(),
              ": ",
              failed->substr(1));
}

void World::run_on_first(const std::string& what, const std::function<void()>& work) const {
  run_on_all(what, [&] {
    if (is_first()) {
      work();
    }
  });
}

const World& World::single() {
  static const FakeWorld world(/*rank=*/0, /*size=*/1);
  return world;
}

}  // namespace reprise
