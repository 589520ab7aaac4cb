#include "checkpoint/rng_state.h"

#include <ATen/Context.h>
#include <ATen/detail/CUDAHooksInterface.h>

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

GeneratorState::GeneratorState(at::Generator generator) : generator_(std::move(generator)) {
  const std::scoped_lock lock(generator_.mutex());
  if (generator_.device().is_cpu()) {
    auto* cpu = generator_.get<at::CPUGeneratorImpl>();
    mersenne_ = Mersenne{
        cpu->engine(), cpu->next_float_normal_sample(), cpu->next_double_normal_sample()};
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
    // Setting the seed clears the offset, so it comes first.
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

RngState::RngState(const std::vector<at::Generator>& extra) : cpu_(at::detail::getDefaultCPUGenerator()) {
  for (int64_t i = 0; i < cuda_device_count(); ++i) {
    others_.emplace_back(
        default_generator(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(i))));
  }
  for (const auto& generator : extra) {
    others_.emplace_back(generator);
  }
}

void RngState::restore() const {
  cpu_.restore();
  for (const auto& state : others_) {
    state.restore();
  }
}

namespace {

/// Blocks of this thread that hold no state at the moment.
std::vector<std::unique_ptr<RngState>>& spare_states() {
  thread_local std::vector<std::unique_ptr<RngState>> spare;
  return spare;
}
constexpr size_t kMostSpareStates = 16;

}  // namespace

RngStatePtr take_rng_state(const std::vector<at::Generator>& extra) {
  auto& spare = spare_states();
  if (spare.empty()) {
    return RngStatePtr(new RngState(extra));
  }
  auto state = std::move(spare.back());
  spare.pop_back();
  *state = RngState(extra);
  return RngStatePtr(state.release());
}

void RngStateRecycler::operator()(RngState* state) const {
  std::unique_ptr<RngState> owned(state);
  if (auto& spare = spare_states(); spare.size() < kMostSpareStates) {
    spare.push_back(std::move(owned));
  }
}

RngGuard::RngGuard(const RngState* state, const std::vector<at::Generator>& extra) {
  if (state != nullptr) {
    callers_.emplace(extra);
    state->restore();
  }
}

RngGuard::~RngGuard() {
  if (callers_) {
    callers_->restore();
  }
}

}  // namespace reprise::detail
