#include "ops/linear/saved_adapters.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace reprise::ops {

void SavedAdapters::save(const Adapters& adapters) {
  for (size_t i = 0; i < adapters.a.size(); ++i) {
    a_.push_back(saved_input(adapters.a[i]));
    b_.push_back(saved_input(adapters.b[i]));
  }
  if (adapters.seed.defined()) {
    seed_ = saved_input(adapters.seed);
  }
  plain_.starts = adapters.starts;
  plain_.scales = adapters.scales;
  plain_.dropout = adapters.dropout;
}

Adapters SavedAdapters::unpack() const {
  Adapters adapters = plain_;
  for (size_t i = 0; i < a_.size(); ++i) {
    adapters.a.push_back(a_[i].unpack());
    adapters.b.push_back(b_[i].unpack());
  }
  adapters.seed = seed_.unpack();
  return adapters;
}

void SavedAdapters::release() {
  for (size_t i = 0; i < a_.size(); ++i) {
    a_[i].reset_data();
    b_[i].reset_data();
  }
  seed_.reset_data();
}

AdapterNeeds adapter_needs(const torch::autograd::Node& node, size_t first, size_t count) {
  AdapterNeeds needs;
  for (size_t i = first; i < first + count; ++i) {
    needs.a = needs.a || node.task_should_compute_output(i);
    needs.b = needs.b || node.task_should_compute_output(i + count);
  }
  return needs;
}

void append(variable_list& results, AdapterGradients gradients) {
  std::move(gradients.a.begin(), gradients.a.end(), std::back_inserter(results));
  std::move(gradients.b.begin(), gradients.b.end(), std::back_inserter(results));
}

}  // namespace reprise::ops
