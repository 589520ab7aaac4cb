#include "train/loop/rng_state.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

namespace {

at::Generator generator_of(const at::Device& device) {
  return at::globalContext().defaultGenerator(device);
}

/// The generators, with the names of rank 0 in the file.
std::vector<std::pair<std::string, at::Generator>> generators(const at::Device& device) {
  std::vector<std::pair<std::string, at::Generator>> all = {{"cpu", generator_of(at::kCPU)}};
  if (!device.is_cpu()) {
    all.emplace_back("device", generator_of(device));
  }
  return all;
}

std::string name_in(const std::string& name, int64_t rank) {
  return rank == 0 ? name : name + "." + std::to_string(rank);
}

/// The last step of splitmix64: similar seeds become ones that differ in all bits.
uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

void set_seed(at::Generator generator, uint64_t seed) {
  const std::scoped_lock lock(generator.mutex());
  generator.set_current_seed(seed);
}

void set_state(at::Generator generator, const TensorFile& file, const TensorInfo& info) {
  const std::scoped_lock lock(generator.mutex());
  const auto size = generator.get_state().numel();
  TORCH_CHECK(info.dtype == at::kByte && info.shape == std::vector<int64_t>{size},
              file.path().string(),
              ": \"",
              info.name,
              "\": expected ",
              size,
              " bytes of a generator's state");
  generator.set_state(file.view(info).clone());
}

std::string bytes_of(at::Generator generator) {
  const std::scoped_lock lock(generator.mutex());
  const at::Tensor state = generator.get_state().contiguous();
  return {static_cast<const char*>(state.const_data_ptr()), state.nbytes()};
}

at::Tensor tensor_of(const std::string& bytes) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace

void seed_everything(uint64_t seed, const at::Device& device, const World& world) {
  const auto rank = static_cast<uint64_t>(world.rank());
  for (const auto& [name, generator] : generators(device)) {
    set_seed(generator, rank == 0 ? seed : mixed(mixed(seed) + rank));
  }
}

NamedTensors rng_state(const at::Device& device, const World& world) {
  NamedTensors state;
  for (const auto& [name, generator] : generators(device)) {
    int64_t rank = 0;
    for (const std::string& bytes : world.all_gather(bytes_of(generator), "random state")) {
      state.emplace_back(name_in(name, rank++), tensor_of(bytes));
    }
  }
  return state;
}

void restore_rng(const TensorFile& file,
                 const at::Device& device,
                 const World& world,
                 uint64_t seed,
                 int64_t step) {
  const auto rank = static_cast<uint64_t>(world.rank());
  for (const auto& [name, generator] : generators(device)) {
    const TensorInfo* const info = file.find(name_in(name, world.rank()));
    TORCH_CHECK(info != nullptr || !world.is_first(),
                file.path().string(),
                ": has no state \"",
                name,
                "\"");
    if (info != nullptr) {
      set_state(generator, file, *info);
    } else {
      set_seed(generator, mixed(mixed(mixed(seed) + rank) + static_cast<uint64_t>(step)));
    }
  }
}

}  // namespace reprise
