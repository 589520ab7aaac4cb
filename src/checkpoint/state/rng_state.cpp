#include "checkpoint/state/rng_state.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace reprise::detail {
namespace {

int64_t cuda_device_count() {
  static const int64_t count =
      at::globalContext().hasCUDA() ? at::detail::getCUDAHooks().deviceCount() : 0;
  return count;
}

}  // namespace

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
  if (generator_.device().is_cpu()) {
    auto* cpu = generator_.get<at::CPUGeneratorImpl>();
    mersenne_ =
        Mersenne{cpu->engine(), cpu->next_float_normal_sample(), cpu->next_double_normal_sample()};
  } else {
    seed_ = generator_.current_seed();
    offset_ = generator_.get_offset();
  }
}

void GeneratorState::restore() const {
  auto generator = generator_;
  const std::scoped_lock lock(generator.mutex());
  if (mersenne_) {
    auto* cpu = generator.get<at::CPUGeneratorImpl>();
    cpu->set_engine(mersenne_->engine);
    cpu->set_next_float_normal_sample(mersenne_->next_float);
    cpu->set_next_double_normal_sample(mersenne_->next_double);
  } else {
    // The seed first, because setting it resets the offset.
    generator.set_current_seed(seed_);
    generator.set_offset(offset_);
  }
}

bool GeneratorState::operator==(const GeneratorState& other) const {
  if (generator_ != other.generator_ || seed_ != other.seed_ || offset_ != other.offset_) {
    return false;
  }
  if (!mersenne_) {
    return true;
  }
  const auto a = mersenne_->engine.data();
  const auto b = other.mersenne_->engine.data();
  return a.next_ == b.next_ && a.left_ == b.left_ && a.seed_ == b.seed_ && a.state_ == b.state_ &&
         mersenne_->next_float == other.mersenne_->next_float &&
         mersenne_->next_double == other.mersenne_->next_double;
}

RngState::RngState(const std::vector<at::Generator>& extra)
    : cpu_(at::detail::getDefaultCPUGenerator()) {
  for (int64_t i = 0; i < cuda_device_count(); ++i) {
    others_.emplace_back(
        default_generator(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(i))));
  }
  for (const auto& generator : extra) {
    others_.emplace_back(generator);
  }
}

void RngState::restore() const {
  if (covers_cpu_) {
    cpu_.restore();
  }
  for (const auto& state : others_) {
    state.restore();
  }
}

bool RngState::keep_changed() {
  const auto is_unchanged = [](const GeneratorState& state) { return state == state.now(); };
  covers_cpu_ = covers_cpu_ && !is_unchanged(cpu_);
  std::erase_if(others_, is_unchanged);
  return covers_cpu_ || !others_.empty();
}

bool RngState::covers(const at::Generator& generator) const {
  return (covers_cpu_ && cpu_.generator() == generator) ||
         std::any_of(others_.begin(), others_.end(), [&generator](const GeneratorState& state) {
           return state.generator() == generator;
         });
}

RngState RngState::now() const {
  RngState state = *this;
  if (covers_cpu_) {
    state.cpu_ = cpu_.now();
  }
  for (auto& other : state.others_) {
    other = other.now();
  }
  return state;
}

namespace {

/// Unused blocks of this thread.
struct SpareStates {
  ~SpareStates() { is_gone = true; }
  std::vector<std::unique_ptr<RngState>> states;
  // A graph with static storage duration may be freed after this thread's thread-locals.
  static thread_local bool is_gone;
};
thread_local bool SpareStates::is_gone = false;
thread_local SpareStates spare;
constexpr size_t kMostSpareStates = 16;

}  // namespace

RngStatePtr take_rng_state(const std::vector<at::Generator>& extra) {
  if (SpareStates::is_gone || spare.states.empty()) {
    return RngStatePtr(std::make_unique<RngState>(extra).release());
  }
  auto state = std::move(spare.states.back());
  spare.states.pop_back();
  *state = RngState(extra);
  return RngStatePtr(state.release());
}

void RngStateRecycler::operator()(RngState* state) const {
  std::unique_ptr<RngState> owned(state);
  if (!SpareStates::is_gone && spare.states.size() < kMostSpareStates) {
    owned->others_.clear();  // releases the user's generators
    spare.states.push_back(std::move(owned));
  }
}

RngGuard::RngGuard(const RngState* state) {
  if (state != nullptr) {
    callers_.emplace(state->now());
    state->restore();
  }
}

RngGuard::~RngGuard() {
  if (callers_) {
    callers_->restore();
  }
}

}  // namespace reprise::detail
