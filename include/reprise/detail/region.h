// The interface between the typed call in checkpoint.h and the engine: the type-erased callable and
// its arguments, and the scopes that run them. Not part of the public interface.
#pragma once

#include <reprise/export.h>
#include <reprise/options.h>
#include <reprise/tensor_fields.h>

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace reprise::detail {

class Frame;

/// The callable and its arguments, except for the tensors in them, which are passed to run().
class REPRISE_API RegionBody {
 public:
  virtual ~RegionBody();
  RegionBody(const RegionBody&) = delete;
  RegionBody& operator=(const RegionBody&) = delete;

  /// Runs the callable on `inputs`. Returns the tensors of its result if `wants_outputs`.
  virtual std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, bool wants_outputs) = 0;
  virtual const std::type_info& callable_type() const = 0;
  /// What an unnamed region is called in messages.
  virtual std::string description() const;

 protected:
  RegionBody();
};

/// The forward of a non-reentrant region, from construction to complete(). Destruction without
/// complete() means that an exception was thrown.
class REPRISE_API RecordingScope {
 public:
  RecordingScope(const CheckpointOptions& options,
                 std::unique_ptr<RegionBody> body,
                 std::vector<at::Tensor> inputs);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

  void complete();
  /// Adds the region's name to an error thrown by user code.
  void annotate(c10::Error& error) const;

 private:
  struct State;
  std::shared_ptr<Frame> frame_;
  std::unique_ptr<State> state_;
  bool is_complete_ = false;
};

/// Runs `forward` without grad mode and attaches the tensors it returns to an autograd node that
/// recomputes the region in backward.
REPRISE_API std::vector<at::Tensor> run_reentrant(
    const CheckpointOptions& options,
    std::unique_ptr<RegionBody> body,
    std::vector<at::Tensor> inputs,
    const std::function<std::vector<at::Tensor>()>& forward);

/// Throws: the result of a reentrant region must be made of tensors.
[[noreturn]] REPRISE_API void refuse_reentrant_result(const std::type_info& type);

/// Whether grad mode is on.
REPRISE_API bool records_gradients();

/// Moves the tensors out of `values`.
template <class... Ts>
std::vector<at::Tensor> take_tensors(std::tuple<Ts...>& values) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(values,
                  [&](at::Tensor& tensor) { tensors.push_back(std::exchange(tensor, {})); });
  return tensors;
}

template <class T>
std::vector<at::Tensor> list_tensors(T& value) {
  std::vector<at::Tensor> tensors;
  for_each_tensor(value, [&](at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

/// Assigns `tensors` to the tensors in `value`, in the order of for_each_tensor.
template <class T>
void put_tensors(T& value, std::vector<at::Tensor> tensors) {
  size_t next = 0;
  for_each_tensor(value, [&](at::Tensor& tensor) { tensor = std::move(tensors.at(next++)); });
}

template <class Fn, class... Args>
class TypedBody final : public RegionBody {
 public:
  using Arguments = std::tuple<Args...>;
  using Result = std::invoke_result_t<Fn&, Args&...>;

  /// The tensors in `arguments` are undefined: see take_tensors.
  TypedBody(Fn fn, Arguments arguments) : fn_(std::move(fn)), arguments_(std::move(arguments)) {}

  std::vector<at::Tensor> run(std::vector<at::Tensor> inputs, bool wants_outputs) override {
    // Copies, so that a callable that modifies itself or its arguments starts from the same state
    // each time.
    Arguments arguments = arguments_;
    unshare(arguments);
    put_tensors(arguments, std::move(inputs));
    Fn fn = fn_;
    auto call = [&fn](auto&... args) -> decltype(auto) { return std::invoke(fn, args...); };
    if constexpr (std::is_void_v<Result>) {
      std::apply(call, arguments);
      return {};
    } else {
      auto result = std::apply(call, arguments);
      if constexpr (visitable<std::decay_t<Result>>()) {
        return wants_outputs ? list_tensors(result) : std::vector<at::Tensor>{};
      } else {
        return {};
      }
    }
  }

  const std::type_info& callable_type() const override { return typeid(Fn); }

 private:
  Fn fn_;
  Arguments arguments_;
};

template <class Fn, class... Args>
constexpr void check_arguments() {
  static_assert(!std::is_nothrow_invocable_v<std::decay_t<Fn>&, std::decay_t<Args>&...>,
                "[reprise] the callable of a checkpointed region must not be noexcept: a recompute "
                "ends early by an exception.");
  static_assert(
      (std::is_copy_constructible_v<std::decay_t<Args>> && ...),
      "[reprise] an argument of a checkpointed region must be copyable: forward and recompute "
      "each need one. Wrap a move-only object in a std::shared_ptr.");
  static_assert(std::is_copy_constructible_v<std::decay_t<Fn>>,
                "[reprise] the callable of a checkpointed region must be copyable.");
  static_assert(
      std::is_invocable_v<std::decay_t<Fn>&, std::decay_t<Args>&...>,
      "[reprise] the callable cannot be called with these arguments. It gets copies of them as "
      "lvalues, so a parameter may be T, const T& or T&, but not T&&.");
  static_assert(!std::is_invocable_v<std::decay_t<Fn>&, std::decay_t<Args>&...> ||
                    std::is_invocable_v<Fn&, std::decay_t<Args>&...>,
                "[reprise] the callable changes itself when called (a mutable lambda, a module "
                "holder) but is const here. Make the variable that holds it non-const.");
}

template <class Fn, class... Args>
auto call_plainly(Fn&& fn, Args&&... args) {
  std::tuple<std::decay_t<Args>...> arguments(std::forward<Args>(args)...);
  return std::apply([&](auto&... values) { return std::invoke(fn, values...); }, arguments);
}

template <class Fn, class... Args>
auto call_recording(const CheckpointOptions& options, Fn&& fn, Args&&... args) {
  using Body = TypedBody<std::decay_t<Fn>, std::decay_t<Args>...>;
  typename Body::Arguments arguments(std::forward<Args>(args)...);
  typename Body::Arguments without_tensors = arguments;
  unshare(without_tensors);
  std::vector<at::Tensor> inputs = take_tensors(without_tensors);
  RecordingScope scope(
      options, std::make_unique<Body>(fn, std::move(without_tensors)), std::move(inputs));
  auto call = [&fn](auto&... values) { return std::invoke(fn, values...); };
  try {
    if constexpr (std::is_void_v<typename Body::Result>) {
      std::apply(call, arguments);
      scope.complete();
    } else {
      auto result = std::apply(call, arguments);
      scope.complete();
      return result;
    }
  } catch (c10::Error& error) {
    scope.annotate(error);
    throw;
  }
}

template <class Fn, class... Args>
auto call_reentrant(const CheckpointOptions& options, Fn&& fn, Args&&... args) {
  using Body = TypedBody<std::decay_t<Fn>, std::decay_t<Args>...>;
  using Result = std::decay_t<typename Body::Result>;
  if constexpr (!std::is_void_v<Result> && visitable<Result>()) {
    typename Body::Arguments arguments(std::forward<Args>(args)...);
    typename Body::Arguments without_tensors = arguments;
    unshare(without_tensors);
    std::vector<at::Tensor> inputs = take_tensors(without_tensors);
    auto call = [&fn](auto&... values) { return std::invoke(fn, values...); };
    std::optional<Result> result;
    auto forward = [&] {
      result.emplace(std::apply(call, arguments));
      return list_tensors(*result);
    };
    auto outputs = run_reentrant(options,
                                 std::make_unique<Body>(fn, std::move(without_tensors)),
                                 std::move(inputs),
                                 forward);
    unshare(*result);  // the callable may have returned a list that the program holds
    put_tensors(*result, std::move(outputs));
    return std::move(*result);
  } else {
    refuse_reentrant_result(typeid(Result));
    return call_plainly(std::forward<Fn>(fn), std::forward<Args>(args)...);
  }
}

}  // namespace reprise::detail
