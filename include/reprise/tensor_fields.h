// How a region finds the tensors inside its arguments.
//
// A checkpointed region keeps its arguments until backward. It must find the tensors inside them to
// save them the way autograd does: through the enclosing region if there is one (otherwise nested
// regions would free nothing), and with the version check that detects in-place changes.
//
// Supported types: at::Tensor; std::optional, std::vector, std::array, std::pair, std::tuple,
// std::variant, std::map and std::unordered_map of supported types; plain values (arithmetic,
// enums, strings, trivially copyable structs); at::Scalar, at::Generator, shared pointers, module
// holders and std::function. c10::IValue, c10::List and c10::Dict are in ivalue_fields.h, which
// checkpoint.h includes; torch::OrderedDict and PackedSequence in torch_fields.h, which modules.h
// includes.
//
// A struct with tensors needs one member:
//
//   struct Batch {
//     at::Tensor ids, mask;
//     template <class Visit> void for_each_tensor(Visit&& visit) { visit(ids); visit(mask); }
//   };
//
// or, if the struct cannot be changed, a specialisation of reprise::TensorFields<Batch>. Any other
// class is a compile-time error. What a shared pointer or a std::function refers to is opaque:
// tensors in it are treated like captured ones, neither saved nor version-checked by the region.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/OptionalArrayRef.h>

#include <array>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace reprise {

/// Specialise this for a type that cannot get a `for_each_tensor` member:
///   template <> struct TensorFields<Batch> {
///     template <class Visit> static void visit(Batch& batch, Visit&& visit) { visit(batch.ids); }
///   };
/// A type whose copies share their content (a handle) also needs `static void unshare(Batch&)`,
/// which gives the handle content of its own.
template <class T>
struct TensorFields;

namespace detail {

template <class T, template <class...> class Template>
inline constexpr bool kIsA = false;
template <template <class...> class Template, class... Args>
inline constexpr bool kIsA<Template<Args...>, Template> = true;

template <class T>
inline constexpr bool kIsStdArray = false;
template <class T, std::size_t N>
inline constexpr bool kIsStdArray<std::array<T, N>> = true;

template <class T>
inline constexpr bool kIsSpan = false;
template <class T, std::size_t N>
inline constexpr bool kIsSpan<std::span<T, N>> = true;

template <class T>
concept HasTensorFields = requires(T& value) {
  TensorFields<T>::visit(value, [](at::Tensor&) {});
};

template <class T>
concept HasForEachTensor = requires(T& value) {
  value.for_each_tensor([](at::Tensor&) {});
};

/// Copies of a T share their content.
template <class T>
concept SharesContent = requires(T& value) {
  TensorFields<T>::unshare(value);
};

/// Non-owning views would dangle by the time of backward.
template <class T>
concept NonOwningView = kIsA<T, c10::ArrayRef> || kIsA<T, c10::OptionalArrayRef> ||
    kIsA<T, std::initializer_list> || std::is_same_v<T, std::string_view> || kIsSpan<T>;

/// A pointer or reference to a tensor hides it from the region.
template <class T>
concept PointsToTensor = (std::is_pointer_v<T> &&
                          std::is_same_v<std::remove_cv_t<std::remove_pointer_t<T>>, at::Tensor>) ||
                         std::is_same_v<T, std::reference_wrapper<at::Tensor>> ||
                         std::is_same_v<T, std::reference_wrapper<const at::Tensor>>;

/// torch::nn::ModuleHolder and the classes of TORCH_MODULE, which wrap a shared pointer. Detected
/// without including their headers.
template <class T>
concept ModuleHandle = requires(const T& module) {
  typename T::ContainedType;
  module.ptr();
};

template <class T>
concept PlainValue = std::is_trivially_copyable_v<T> || std::is_same_v<T, std::string> ||
    std::is_same_v<T, c10::Scalar> || std::is_same_v<T, at::Generator> || ModuleHandle<T> ||
    kIsA<T, std::shared_ptr> || kIsA<T, std::weak_ptr> || kIsA<T, std::function>;

template <class T>
constexpr bool visitable();

template <class Tuple, std::size_t... I>
constexpr bool elements_visitable(std::index_sequence<I...>) {
  return (visitable<std::tuple_element_t<I, Tuple>>() && ...);
}

template <class Variant, std::size_t... I>
constexpr bool alternatives_visitable(std::index_sequence<I...>) {
  return (visitable<std::variant_alternative_t<I, Variant>>() && ...);
}

/// Whether every tensor inside a T can be found.
template <class T>
constexpr bool visitable() {
  if constexpr (std::is_same_v<T, at::Tensor> || HasTensorFields<T> || HasForEachTensor<T>) {
    return true;
  } else if constexpr (kIsA<T, std::optional> || kIsA<T, std::vector> || kIsStdArray<T>) {
    return visitable<typename T::value_type>();
  } else if constexpr (kIsA<T, std::map> || kIsA<T, std::unordered_map>) {
    return visitable<typename T::mapped_type>();
  } else if constexpr (kIsA<T, std::tuple> || kIsA<T, std::pair>) {
    return elements_visitable<T>(std::make_index_sequence<std::tuple_size_v<T>>());
  } else if constexpr (kIsA<T, std::variant>) {
    return alternatives_visitable<T>(std::make_index_sequence<std::variant_size_v<T>>());
  } else {
    return PlainValue<T> && !NonOwningView<T> && !PointsToTensor<T>;
  }
}

/// Calls `visit(at::Tensor&)` for every tensor in `value`, always in the same order.
template <class T, class Visit>
void for_each_tensor(T& value, Visit&& visit) {
  static_assert(
      !NonOwningView<T>,
      "[reprise] a non-owning view (ArrayRef, string_view, span) cannot be an argument of a "
      "checkpointed region: what it refers to may be gone in backward. Pass a std::vector or "
      "std::string.");
  static_assert(
      !PointsToTensor<T>,
      "[reprise] a pointer or reference_wrapper to a tensor hides it from the checkpointed "
      "region. Pass the tensor itself (a cheap handle).");
  if constexpr (std::is_same_v<T, at::Tensor>) {
    visit(value);
  } else if constexpr (HasTensorFields<T>) {
    TensorFields<T>::visit(value, visit);
  } else if constexpr (HasForEachTensor<T>) {
    value.for_each_tensor(visit);
  } else if constexpr (kIsA<T, std::optional>) {
    if (value) {
      for_each_tensor(*value, visit);
    }
  } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
    return;
  } else if constexpr (kIsA<T, std::vector> || kIsStdArray<T>) {
    for (auto& element : value) {
      for_each_tensor(element, visit);
    }
  } else if constexpr (kIsA<T, std::map> || kIsA<T, std::unordered_map>) {
    for (auto& entry : value) {
      for_each_tensor(entry.second, visit);
    }
  } else if constexpr (kIsA<T, std::tuple> || kIsA<T, std::pair>) {
    std::apply([&](auto&... elements) { (for_each_tensor(elements, visit), ...); }, value);
  } else if constexpr (kIsA<T, std::variant>) {
    std::visit([&](auto& alternative) { for_each_tensor(alternative, visit); }, value);
  } else {
    static_assert(
        PlainValue<T>,
        "[reprise] this argument type may hide tensors from the checkpointed region. Give it a "
        "`template <class Visit> void for_each_tensor(Visit&& visit)` member or specialise "
        "reprise::TensorFields for it; pass a std::shared_ptr to it if it holds none.");
  }
}

/// Gives every handle in `value` whose copies share their content (c10::List) content of its own.
/// The tensors stay the same.
template <class T>
void unshare(T& value) {
  if constexpr (SharesContent<T>) {
    TensorFields<T>::unshare(value);
  } else if constexpr (PlainValue<T> || std::is_same_v<T, at::Tensor> || HasTensorFields<T> ||
                       std::is_same_v<T, std::vector<bool>>) {
    return;
  } else if constexpr (kIsA<T, std::optional>) {
    if (value) {
      unshare(*value);
    }
  } else if constexpr (kIsA<T, std::vector> || kIsStdArray<T>) {
    for (auto& element : value) {
      unshare(element);
    }
  } else if constexpr (kIsA<T, std::map> || kIsA<T, std::unordered_map>) {
    for (auto& entry : value) {
      unshare(entry.second);
    }
  } else if constexpr (kIsA<T, std::tuple> || kIsA<T, std::pair>) {
    std::apply([](auto&... elements) { (unshare(elements), ...); }, value);
  } else if constexpr (kIsA<T, std::variant>) {
    std::visit([](auto& alternative) { unshare(alternative); }, value);
  }
}

}  // namespace detail
}  // namespace reprise
