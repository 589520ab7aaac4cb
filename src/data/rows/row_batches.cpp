// Batches are limited in rows and in bytes, because a single row may have megabytes.
#include "data/rows/row_batches.h"

#include <utility>

namespace reprise::data {
namespace {

constexpr size_t kBatchRows = 1000;
constexpr size_t kBatchBytes = size_t{16} << 20;

}  // namespace

std::vector<RowText> read_batch(RowReader& reader, int64_t max_rows) {
  std::vector<RowText> rows;
  size_t bytes = 0;
  while (rows.size() < kBatchRows && bytes < kBatchBytes &&
         (max_rows < 0 || static_cast<int64_t>(rows.size()) < max_rows)) {
    auto row = reader.next_text();
    if (!row) {
      break;
    }
    bytes += row->text.size();
    rows.push_back(std::move(*row));
  }
  return rows;
}

}  // namespace reprise::data
