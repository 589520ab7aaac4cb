#include "parallel/flat_group.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace reprise {

namespace {

constexpr int64_t kAlignment = 64;  // bytes: good for vector instructions and GPUs

int64_t rounded_up(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

c10::Storage storage_of(int64_t bytes, const at::Device& device) {
  const c10::OptionalDeviceGuard here(device);  // allocators use the current device
  auto* allocator = c10::GetAllocator(device.type());
  const auto size = static_cast<size_t>(bytes);
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(),
                                                            size,
                                                            allocator->allocate(size),
                                                            allocator,
                                                            /*resizable=*/false));
}

// at::Tensor::set_ would check that the storage is large enough, but it may be empty.
at::Tensor tensor_over(const c10::Storage& storage,
                       const at::TensorOptions& options,
                       int64_t begin,
                       at::IntArrayRef sizes) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(storage), options.computeDispatchKey(), options.dtype());
  std::vector<int64_t> strides(sizes.size(), 1);
  for (size_t i = sizes.size(); i > 1; --i) {
    strides[i - 2] = strides[i - 1] * sizes[i - 1];
  }
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, begin);
  return tensor;
}

}  // namespace

FlatGroup::FlatGroup(std::vector<std::pair<std::string, at::Tensor>> parameters,
                     const World& world,
                     const Settings& settings)
    : world_(world), settings_(settings), is_trained_(parameters.front().second.requires_grad()) {
  // Matrices first: then projections of the same input are adjacent, and so are their biases.
  std::stable_sort(parameters.begin(), parameters.end(), [](const auto& a, const auto& b) {
    return a.second.dim() > 1 && b.second.dim() <= 1;
  });
  for (auto& [name, parameter] : parameters) {
    Member& member = members_.emplace_back();
    member.name = std::move(name);
    member.parameter = std::move(parameter);
  }
  lay_out();
  take_values();
}

// Computes the offset of every parameter, and which of its elements are this process's.
void FlatGroup::lay_out() {
  const int64_t aligned = kAlignment / static_cast<int64_t>(settings_.options.dtype().itemsize());
  const int64_t unit = std::lcm(aligned, settings_.block);
  int64_t end = 0;
  for (Member& member : members_) {
    member.begin = rounded_up(end, unit);
    member.count = member.parameter.numel();
    end = member.begin + member.count;
  }
  part_numel_ = rounded_up((end + world_.size() - 1) / world_.size(), unit);
  const int64_t own = world_.rank() * part_numel_;
  for (Member& member : members_) {
    const int64_t first = std::clamp(own, member.begin, member.begin + member.count);
    const int64_t last = std::clamp(own + part_numel_, member.begin, member.begin + member.count);
    member.kept_begin = first - member.begin;
    member.kept_count = last - first;
  }
}

void FlatGroup::take_values() {
  const at::NoGradGuard no_grad;
  if (settings_.kind == FlatKind::Untouched) {
    for (Member& member : members_) {
      member.values = member.parameter.detach().view({-1});
    }
    return;
  }
  const auto& options = settings_.options;
  const auto bytes = part_numel_ * world_.size() * static_cast<int64_t>(options.dtype().itemsize());
  const auto storage = storage_of(is_sharded() ? 0 : bytes, options.device());
  whole_ = tensor_over(storage, options, 0, {part_numel_ * world_.size()});
  if (is_sharded()) {
    const auto part_options =
        settings_.is_offloaded ? options.device(at::kCPU).pinned_memory(options.device().is_cuda())
                               : options;
    part_ = at::zeros({part_numel_}, part_options);
  } else {
    whole_.zero_();
    part_ = whole_.narrow(0, world_.rank() * part_numel_, part_numel_);
  }
  for (Member& member : members_) {
    const auto before = member.parameter.detach().reshape({-1});
    if (is_sharded()) {
      if (member.kept_count > 0) {
        kept_of(member).copy_(before.narrow(0, member.kept_begin, member.kept_count));
      }
    } else {
      whole_.narrow(0, member.begin, member.count).copy_(before);
    }
    member.parameter.set_data(
        tensor_over(storage, options, member.begin, member.parameter.sizes()));
    member.values = values_of(member);
  }
}

// This process's elements of a parameter, as a view of its part.
at::Tensor FlatGroup::kept_of(const Member& member) const {
  const int64_t begin = member.begin + member.kept_begin - world_.rank() * part_numel_;
  return part_.narrow(0, member.kept_count > 0 ? begin : 0, member.kept_count);
}

at::Tensor FlatGroup::values_of(const Member& member) const {
  return settings_.sums_whole ? whole_.narrow(0, member.begin, member.count) : kept_of(member);
}

int64_t FlatGroup::parameter_bytes() const {
  int64_t bytes = 0;
  for (const Member& member : members_) {
    bytes += static_cast<int64_t>(member.parameter.nbytes());
  }
  return bytes;
}

int64_t FlatGroup::whole_bytes() const {
  return settings_.kind == FlatKind::Untouched ? parameter_bytes()
                                               : static_cast<int64_t>(whole_.nbytes());
}

int64_t FlatGroup::resident_bytes() const {
  return is_sharded() ? static_cast<int64_t>(part_.nbytes()) : whole_bytes();
}

void FlatGroup::start_gather(const std::string& what) {
  const at::NoGradGuard no_grad;
  const c10::OptionalDeviceGuard here(whole_.device());
  auto* storage = whole_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(storage->allocator()->allocate(whole_.nbytes()));
  storage->set_nbytes(whole_.nbytes());
  sent_ = settings_.is_offloaded ? part_.to(whole_.device(), /*non_blocking=*/true) : part_;
  gather_ = world_.start_all_gather(whole_, sent_, what);
}

void FlatGroup::finish_gather() {
  if (gather_ != nullptr) {
    std::exchange(gather_, nullptr)->wait();
    sent_.reset();
  }
}

void FlatGroup::free() {
  finish_gather();  // the collective still writes to the memory
  const c10::OptionalDeviceGuard here(whole_.device());
  auto* storage = whole_.storage().unsafeGetStorageImpl();
  storage->set_nbytes(0);
  storage->set_data_ptr_noswap(storage->allocator()->allocate(0));
}

void FlatGroup::start_sync(const std::string& what) {
  const at::NoGradGuard no_grad;
  gather_ = world_.start_all_gather(whole_, part_, what);
}

void FlatGroup::add_trained(std::vector<TensorPart>& parts) const {
  if (!is_trained_) {
    return;
  }
  for (const Member& member : members_) {
    if (member.values.numel() > 0) {
      parts.push_back({member.name,
                       member.parameter.sizes().vec(),
                       settings_.sums_whole ? 0 : member.kept_begin,
                       member.values});
    }
  }
}

std::optional<TensorPart> FlatGroup::part_of(const std::string& name,
                                             const at::Tensor& parameter) const {
  const auto found = std::find_if(members_.begin(), members_.end(), [&](const Member& member) {
    return member.parameter.is_same(parameter);
  });
  if (found == members_.end()) {
    return std::nullopt;
  }
  const bool is_all = settings_.sums_whole || settings_.kind == FlatKind::Untouched;
  return TensorPart{
      name,
      parameter.sizes().vec(),
      found->kept_begin,
      is_all ? found->values.narrow(0, found->kept_begin, found->kept_count) : found->values};
}

}  // namespace reprise
