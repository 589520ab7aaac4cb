#include "plan/trace/storage_facts.h"

#include "checkpoint/offload/compressed.h"
#include "checkpoint/offload/group.h"
#include "checkpoint/offload/host_pool.h"
#include "checkpoint/offload/placeholder.h"
#include "plan/measure/activation_counter.h"

#include <reprise/offload.h>

namespace reprise::planning {

int64_t host_bytes_of(const at::Tensor& tensor) {
  const auto backend = detail::host_pool()->backend;
  const bool goes = detail::supports_placeholder(tensor) && backend->supports(tensor.device()) &&
                    tensor.storage().nbytes() >= backend->smallest_bytes();
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
  const auto pool = detail::host_pool();
  return {.can_offload = pool->backend->supports(device),
          .page_bytes = static_cast<int64_t>(pool->backend->page_bytes()),
          .prefetch = pool->settings().prefetch};
}

}  // namespace reprise::planning
