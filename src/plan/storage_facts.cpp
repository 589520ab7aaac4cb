#include "plan/storage_facts.h"

#include "checkpoint/compressed.h"
#include "checkpoint/hollow_tensor.h"
#include "checkpoint/offload_depot.h"
#include "checkpoint/offload_parcel.h"
#include "plan/activation_counter.h"

#include <reprise/offload.h>

namespace reprise::planning {

int64_t host_bytes_of(const at::Tensor& tensor) {
  const auto tier = detail::depot()->tier;
  const bool goes = detail::can_be_hollow(tensor) && tier->serves(tensor.device()) &&
                    tensor.storage().nbytes() >= tier->smallest_bytes();
  return goes ? static_cast<int64_t>(detail::space_in_pages(tensor.storage().nbytes())) : 0;
}

TracedForm form_of(const at::Tensor& tensor, c10::Device device) {
  using detail::Compressed;
  const auto form = Compressed::form_of(tensor);
  if (form == Compressed::Form::None || tensor.nbytes() < kSmallestMovedBytes ||
      tensor.device().type() != device.type()) {
    return {};
  }
  const auto footprint = Compressed::footprint_of(tensor);
  TracedForm traced;
  traced.is_exact = form == Compressed::Form::Bits;
  for (const size_t part : footprint.parts) {
    traced.bytes += rounded_bytes(static_cast<int64_t>(part), device);
  }
  traced.making_bytes = static_cast<int64_t>(footprint.making);
  traced.restoring_bytes = static_cast<int64_t>(footprint.restoring);
  return traced;
}

TracedHost host_of(c10::Device device) {
  const auto depot = detail::depot();
  return {.is_served = depot->tier->serves(device),
          .page_bytes = static_cast<int64_t>(depot->tier->page_bytes()),
          .prefetch = depot->settings().prefetch};
}

}  // namespace reprise::planning
