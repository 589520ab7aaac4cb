// Reproduces numpy's default_rng, for orders that other libraries draw with it.
#pragma once

#include <reprise/export.h>

#include <cstdint>

namespace reprise::data {

/// PCG64 (XSL-RR), seeded by numpy's SeedSequence.
class REPRISE_API NumpyRandom {
 public:
  explicit NumpyRandom(uint64_t seed);

  /// Uniform in [0, 1): Generator.random().
  double uniform();

 private:
  __extension__ using Wide = unsigned __int128;

  void step();

  Wide state_ = 0;
  Wide increment_ = 0;
};

}  // namespace reprise::data
