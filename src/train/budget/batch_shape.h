// The shape of a micro-batch: everything that the bytes of its step depend on.
#pragma once

#include <reprise/data/batch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

struct BatchShape {
  int64_t rows = 0;    ///< as the user counts them
  int64_t length = 0;  ///< tokens of a row
  /// The numbers that bytes grow with, taken from the tensors: rows and length first. They have the
  /// same meaning for equal `structure`.
  std::vector<int64_t> sizes = {};
  /// Batches with equal structure run the same operators.
  std::string structure = {};

  /// Whether memory that is enough for this shape is enough for `other`.
  bool covers(const BatchShape& other) const;
  /// How far from `from` to `to` one must go to cover `wanted`: 0 to 1; above 1: beyond `to`.
  static double way(const BatchShape& from, const BatchShape& to, const BatchShape& wanted);
  /// The shape at `share` of the way from `from` to `to`, rounded down.
  static BatchShape between(const BatchShape& from, const BatchShape& to, double share);

  double tokens() const { return static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]); }

  bool operator==(const BatchShape&) const = default;
};

BatchShape shape_of(const Batch& batch);
/// For other kinds of rows: from their tokens alone.
BatchShape shape_of(const TokenBatch& tokens);

}  // namespace reprise
