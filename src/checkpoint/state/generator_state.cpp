#include "checkpoint/state/generator_state.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <bit>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise::detail {

namespace {

/// The engine's only member, without copying its 2.5 KB as data() does.
const at::mt19937_data_pod& data_of(const at::mt19937& engine) {
  static_assert(std::is_standard_layout_v<at::mt19937> &&
                sizeof(at::mt19937) == sizeof(at::mt19937_data_pod));
  return reinterpret_cast<const at::mt19937_data_pod&>(engine);
}

int64_t cuda_device_count() {
  static const int64_t count =
      at::globalContext().hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
  return count;
}

}  // namespace

std::vector<at::Generator> default_generators() {
  std::vector<at::Generator> generators{at::detail::getDefaultCPUGenerator()};
  for (int64_t i = 0; i < cuda_device_count(); ++i) {
    generators.push_back(
        default_generator(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(i))));
  }
  return generators;
}

at::Generator default_generator(c10::Device device) {
  if (device.is_cuda()) {
    return at::detail::getCUDAHooks().getDefaultGenerator(device.index());
  }
  return device.is_cpu() ? at::detail::getDefaultCPUGenerator()
                         : at::globalContext().defaultGenerator(device);
}

bool is_capturing_graph() {
  if (cuda_device_count() == 0) {
    return false;
  }
  try {
    // The way to find out without CUDA's headers: this throws on a stream that is being captured.
    default_generator(c10::Device(c10::kCUDA, 0)).get_offset();
    return false;
  } catch (const c10::Error&) {
    return true;
  }
}

GeneratorState::GeneratorState(at::Generator generator) : generator_(std::move(generator)) {
  const std::scoped_lock lock(generator_.mutex());
  read();
}

GeneratorState GeneratorState::of_locked(at::Generator generator) {
  GeneratorState state;
  state.generator_ = std::move(generator);
  state.read();
  return state;
}

void GeneratorState::read() {
  if (generator_.device().is_cpu()) {
    auto* cpu = generator_.get<at::CPUGeneratorImpl>();
    mersenne_ = std::make_shared<const Mersenne>(
        Mersenne{cpu->engine(), cpu->next_float_normal_sample(), cpu->next_double_normal_sample()});
  } else {
    seed_ = generator_.current_seed();
    offset_ = generator_.get_offset();
  }
}

void GeneratorState::restore_to(at::Generator other) const {
  const std::scoped_lock lock(other.mutex());
  restore_to_locked(other);
}

void GeneratorState::restore_to_locked(at::Generator other) const {
  if (mersenne_) {
    auto* cpu = other.get<at::CPUGeneratorImpl>();
    cpu->set_engine(mersenne_->engine);
    cpu->set_next_float_normal_sample(mersenne_->next_float);
    cpu->set_next_double_normal_sample(mersenne_->next_double);
  } else {
    // The seed first, because setting it resets the offset.
    other.set_current_seed(seed_);
    other.set_offset(offset_);
  }
}

bool GeneratorState::operator==(const GeneratorState& other) const {
  if (generator_ != other.generator_ || seed_ != other.seed_ || offset_ != other.offset_) {
    return false;
  }
  if (!mersenne_ || mersenne_ == other.mersenne_) {
    return true;
  }
  const auto &a = data_of(mersenne_->engine), &b = data_of(other.mersenne_->engine);
  return a.next_ == b.next_ && a.left_ == b.left_ && a.seed_ == b.seed_ && a.state_ == b.state_ &&
         mersenne_->next_float == other.mersenne_->next_float &&
         mersenne_->next_double == other.mersenne_->next_double;
}

namespace {

/// A draw moves the position; every 624 draws all words of the state change. Of normal numbers, one
/// is kept for the next call, which then draws nothing.
GeneratorMark mark_of(const at::mt19937& engine,
                      std::optional<float> next_float,
                      std::optional<double> next_double) {
  const auto& data = data_of(engine);
  GeneratorMark mark{data.seed_,
                     static_cast<uint64_t>(data.left_) << 32U | data.next_,
                     static_cast<uint64_t>(data.state_[0]) << 32U | data.state_[1]};
  if (next_float) {
    mark.content ^= std::bit_cast<uint32_t>(*next_float) + uint64_t{0x9E3779B97F4A7C15};
  }
  if (next_double) {
    mark.content ^= std::rotl(std::bit_cast<uint64_t>(*next_double), 17) + 1;
  }
  return mark;
}

}  // namespace

bool GeneratorState::was_seeded_since(const GeneratorState& other) const {
  const auto now = mark();
  return now.is_fresh(generator_.device()) || now.seed != other.mark().seed;
}

GeneratorMark GeneratorState::mark() const {
  return mersenne_ ? mark_of(mersenne_->engine, mersenne_->next_float, mersenne_->next_double)
                   : GeneratorMark{seed_, offset_, 0};
}

std::optional<GeneratorMark> GeneratorMark::of(const at::Generator& generator) {
  auto locked = generator;
  const std::scoped_lock lock(locked.mutex());
  if (!generator.device().is_cpu()) {
    try {
      return GeneratorMark{generator.current_seed(), generator.get_offset(), 0};
    } catch (const c10::Error&) {
      return std::nullopt;
    }
  }
  auto* cpu = locked.get<at::CPUGeneratorImpl>();
  return mark_of(cpu->engine(), cpu->next_float_normal_sample(), cpu->next_double_normal_sample());
}

namespace {

struct PrivateGenerators {
  std::vector<at::Generator> idle;
  std::vector<at::Generator> in_use;
};
thread_local PrivateGenerators private_generators;

at::Generator take_private(const at::Generator& like) {
  auto& idle = private_generators.idle;
  const auto found = std::find_if(idle.begin(), idle.end(), [&like](const at::Generator& one) {
    return one.device() == like.device();
  });
  if (found == idle.end()) {
    return like.device().is_cpu() ? at::detail::createCPUGenerator() : like.clone();
  }
  auto taken = std::move(*found);
  idle.erase(found);
  return taken;
}

}  // namespace

PrivateGenerator::PrivateGenerator(const GeneratorState& state)
    : generator_(take_private(state.generator())) {
  state.restore_to(generator_);
  private_generators.in_use.push_back(generator_);
}

PrivateGenerator::~PrivateGenerator() {
  std::erase(private_generators.in_use, generator_);
  private_generators.idle.push_back(std::move(generator_));
}

bool PrivateGenerator::is_one(const at::Generator& generator) {
  const auto& in_use = private_generators.in_use;
  return std::find(in_use.begin(), in_use.end(), generator) != in_use.end();
}

}  // namespace reprise::detail
