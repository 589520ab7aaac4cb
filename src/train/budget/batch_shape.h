// What the bytes of a micro-batch's step depend on.
#pragma once

#include <reprise/data/batch.h>

#include <cstdint>
#include <string>
#include <vector>

namespace reprise {

struct BatchShape {
  int64_t rows = 0;    ///< as its user counts them
  int64_t length = 0;  ///< tokens of a row
  /// Numbers that bytes grow with, those of the tensors: rows and length first. Of the same meaning
  /// where `structure` is the same.
  std::vector<int64_t> sizes = {};
  /// Batches with the same run the same operators.
  std::string structure = {};

  /// Whether a step that has room for this one has room for `other`.
  bool covers(const BatchShape& other) const;
  /// How far on the way from `from` to `to` a shape lies that covers this one; above 1: beyond.
  static double way(const BatchShape& from, const BatchShape& to, const BatchShape& wanted);
  /// The shape at `share` of that way, in whole numbers.
  static BatchShape between(const BatchShape& from, const BatchShape& to, double share);

  double tokens() const { return static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]); }

  bool operator==(const BatchShape&) const = default;
};

BatchShape shape_of(const Batch& batch);
/// For other kinds of rows: the sizes and structure of their tokens.
BatchShape shape_of(const TokenBatch& tokens);

}  // namespace reprise
