#include "memory/planned_device.h"

#include <utility>

namespace reprise::memory {
namespace {

thread_local PlannedDevice planned;

}  // namespace

const PlannedDevice& planned_device() {
  return planned;
}

PlannedDeviceGuard::PlannedDeviceGuard(const PlannedDevice& device)
    : previous_(std::exchange(planned, device)) {}

PlannedDeviceGuard::~PlannedDeviceGuard() {
  planned = previous_;
}

}  // namespace reprise::memory
