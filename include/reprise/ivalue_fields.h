// c10::IValue, c10::List and c10::Dict as arguments and results of regions.
//
// These are handles: copies share one list. A region therefore keeps a copy of its own, made when
// its forward begins. A list that the callable changes is changed once, in forward, as without a
// region; a recompute changes its own copy.
#pragma once

#include <reprise/export.h>
#include <reprise/tensor_fields.h>

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <utility>

namespace reprise {

namespace detail {

REPRISE_API void visit_ivalue(c10::IValue& value, const std::function<void(at::Tensor&)>& visit);
REPRISE_API c10::IValue unshared_ivalue(const c10::IValue& value);

}  // namespace detail

/// Tensors inside lists, tuples, dictionaries and optionals are found. Objects, futures and tensors
/// as keys are refused when the region begins.
template <>
struct TensorFields<c10::IValue> {
  template <class Visit>
  static void visit(c10::IValue& value, Visit&& visit) {
    detail::visit_ivalue(value, [&visit](at::Tensor& tensor) { visit(tensor); });
  }
  static void unshare(c10::IValue& value) { value = detail::unshared_ivalue(value); }
};

template <class T>
requires(detail::visitable<T>()) struct TensorFields<c10::List<T>> {
  template <class Visit>
  static void visit(c10::List<T>& list, Visit&& visit) {
    if constexpr (!detail::PlainValue<T>) {
      for (size_t i = 0; i < list.size(); ++i) {
        T element = list.get(i);
        detail::for_each_tensor(element, visit);
        list.set(i, std::move(element));
      }
    }
  }
  static void unshare(c10::List<T>& list) {
    list = list.copy();
    if constexpr (!detail::PlainValue<T>) {
      for (size_t i = 0; i < list.size(); ++i) {
        T element = list.get(i);
        detail::unshare(element);
        list.set(i, std::move(element));
      }
    }
  }
};

/// Tensors as keys are refused.
template <class Key, class T>
requires(detail::visitable<T>() &&
         !std::is_same_v<Key, at::Tensor>) struct TensorFields<c10::Dict<Key, T>> {
  template <class Visit>
  static void visit(c10::Dict<Key, T>& dict, Visit&& visit) {
    if constexpr (!detail::PlainValue<T>) {
      for (const auto& entry : dict) {  // in the order of insertion
        T value = entry.value();
        detail::for_each_tensor(value, visit);
        entry.setValue(std::move(value));
      }
    }
  }
  static void unshare(c10::Dict<Key, T>& dict) {
    dict = dict.copy();
    if constexpr (!detail::PlainValue<T>) {
      for (const auto& entry : dict) {
        T value = entry.value();
        detail::unshare(value);
        entry.setValue(std::move(value));
      }
    }
  }
};

}  // namespace reprise
