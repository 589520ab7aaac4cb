// Autocast for a scope, as torch.autocast gives it to Python programs.
#pragma once

#include <ATen/autocast_mode.h>

namespace reprise {

/// While it lives, matrix products and their like run in `dtype` on this kind of device, and
/// parameters stay as they are.
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

/// While it lives, autocast keeps no converted weights: they would outlive what they were made of.
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
