// to_device(): moves every defined tensor of a batch.
#include <reprise/data/batch.h>

#include <ATen/ATen.h>

namespace reprise {
namespace {

at::Tensor moved(const at::Tensor& tensor, at::Device device) {
  return tensor.defined() ? tensor.to(device) : tensor;
}

TokenBatch moved(const TokenBatch& batch, at::Device device) {
  TokenBatch result = batch;
  for (at::Tensor* tensor : {&result.input_ids,
                             &result.attention_mask,
                             &result.labels,
                             &result.soft_labels,
                             &result.position_ids,
                             &result.document_ids,
                             &result.document_starts}) {
    *tensor = moved(*tensor, device);
  }
  return result;
}

}  // namespace

Batch to_device(const Batch& batch, at::Device device) {
  Batch result = batch;
  result.main = moved(batch.main, device);
  result.mismatched = moved(batch.mismatched, device);
  result.margin = moved(batch.margin, device);
  result.desirable = moved(batch.desirable, device);
  return result;
}

}  // namespace reprise
