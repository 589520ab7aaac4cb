// Types of LibTorch's C++ frontend as arguments and results of regions: torch::OrderedDict and
// torch::nn::utils::rnn::PackedSequence.
#pragma once

#include <reprise/tensor_fields.h>

#include <torch/nn/utils/rnn.h>
#include <torch/ordered_dict.h>

namespace reprise {

template <class Key, class T>
requires(detail::visitable<T>()) struct TensorFields<torch::OrderedDict<Key, T>> {
  template <class Visit>
  static void visit(torch::OrderedDict<Key, T>& dict, Visit&& visit) {
    for (auto& item : dict) {
      detail::for_each_tensor(item.value(), visit);
    }
  }
  static void unshare(torch::OrderedDict<Key, T>& dict) {
    for (auto& item : dict) {
      detail::unshare(item.value());
    }
  }
};

template <>
struct TensorFields<torch::nn::utils::rnn::PackedSequence> {
  template <class Visit>
  static void visit(torch::nn::utils::rnn::PackedSequence& sequence, Visit&& visit) {
    // There are only const accessors, and the constructor does not accept a sequence whose tensors
    // a region has taken out. The object itself is not const.
    for (const auto* tensor : {&sequence.data(),
                               &sequence.batch_sizes(),
                               &sequence.sorted_indices(),
                               &sequence.unsorted_indices()}) {
      visit(const_cast<at::Tensor&>(*tensor));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    }
  }
};

}  // namespace reprise
