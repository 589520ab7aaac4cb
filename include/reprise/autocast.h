// Autocast for a scope, the counterpart of Python's torch.autocast.
#pragma once

#include <ATen/autocast_mode.h>

namespace reprise {

/// In its scope, autocast runs matrix products and similar operators in `dtype` on this device
/// type. Parameters keep their dtype.
class AutocastScope {
 public:
  explicit AutocastScope(c10::DeviceType device,
                         at::ScalarType dtype = at::kBFloat16,
                         bool enabled = true)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        old_dtype_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(device_, enabled);
    at::autocast::set_autocast_dtype(device_, dtype);
  }
  ~AutocastScope() {
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, old_dtype_);
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  at::ScalarType old_dtype_;
};

/// In its scope, autocast does not cache converted weights, for example because a cached weight
/// would outlive the parameter it was converted from.
class WithoutAutocastCache {
 public:
  WithoutAutocastCache() : was_enabled_(at::autocast::is_autocast_cache_enabled()) {
    at::autocast::set_autocast_cache_enabled(false);
  }
  ~WithoutAutocastCache() { at::autocast::set_autocast_cache_enabled(was_enabled_); }
  WithoutAutocastCache(const WithoutAutocastCache&) = delete;
  WithoutAutocastCache& operator=(const WithoutAutocastCache&) = delete;

 private:
  bool was_enabled_;
};

}  // namespace reprise
