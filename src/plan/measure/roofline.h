// Predicts the time of one operator on a device from its shapes alone.
//
// A roofline: matrix products and attention are bound by arithmetic, everything else by memory,
// with arguments read once and results written once. No operator is faster than a launch.
#pragma once

#include <reprise/device_profile.h>

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <optional>

namespace reprise::planning {

/// An operator call: its arguments and results.
struct OpCallView {
  const c10::FunctionSchema& schema;
  c10::ArrayRef<c10::IValue> arguments;
  c10::ArrayRef<c10::IValue> results;
};

/// The time of a matrix product or fused attention, including the operators that it calls;
/// std::nullopt for others.
std::optional<double> arithmetic_ns(const OpCallView& call, const DeviceProfile& device);

/// The time that an operator takes to read and write memory, if it calls no other. 0 for views and
/// factories.
double memory_ns(const OpCallView& call, const DeviceProfile& device);

}  // namespace reprise::planning
