// The processes that train together. There is one for now; what must be agreed on by all goes
// through here already.
#pragma once

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

class REPRISE_API World {
 public:
  virtual ~World();
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  /// The sum over all processes, in every process.
  virtual at::Tensor sum(const at::Tensor& value) const = 0;
  virtual double sum(double value) const = 0;
  bool is_first() const { return rank() == 0; }

  /// One process.
  static const World& single();
};

}  // namespace reprise
