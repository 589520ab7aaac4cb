// Which tokens of which examples form each packed row.
#pragma once

#include <reprise/data/dataset.h>
#include <reprise/export.h>

#include <cstdint>
#include <span>
#include <vector>

namespace reprise::data {

/// Tokens [begin, end) of an example.
struct PackedPiece {
  int64_t example = 0;
  int32_t begin = 0;
  int32_t end = 0;

  int64_t size() const { return end - begin; }
};

/// Sixteen bytes per piece, however long the examples are.
struct PackingPlan {
  std::vector<PackedPiece> pieces;  ///< of all rows, concatenated
  std::vector<int64_t> row_ends;    ///< end of each row, as an index into pieces

  int64_t rows() const { return static_cast<int64_t>(row_ends.size()); }
  /// The pieces of a row. Throws if there is no such row.
  REPRISE_API std::span<const PackedPiece> row(int64_t index) const;
};

/// Rows and their order equal those of TRL's pack_dataset for examples of these lengths.
REPRISE_API PackingPlan plan_packing(std::span<const int64_t> lengths,
                                     Packing packing,
                                     int64_t row_length);

}  // namespace reprise::data
