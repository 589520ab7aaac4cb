// How long one operator takes on a device, from its shapes alone: a roofline.
//
// Products and attention are bound by arithmetic, everything else by memory: its arguments are read
// once and its results written once. Nothing is faster than a launch.
#pragma once

#include <reprise/device_profile.h>

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/util/ArrayRef.h>

#include <optional>

namespace reprise::planning {

/// An operator call: what it was given and what it returned.
struct OpCallView {
  const c10::FunctionSchema& schema;
  c10::ArrayRef<c10::IValue> arguments;
  c10::ArrayRef<c10::IValue> results;
};

/// Of a matrix product or a fused attention, whatever it calls inside; nothing for others.
std::optional<double> arithmetic_ns(const OpCallView& call, const DeviceProfile& device);

/// Of an operator that calls no other: what it reads and writes. 0 for views and factories.
double memory_ns(const OpCallView& call, const DeviceProfile& device);

}  // namespace reprise::planning
