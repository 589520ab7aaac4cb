// Note [Packing in batches]
// TRL packs with datasets.map, which processes 1000 rows at a time: no packed row has examples of
// two batches, and each batch may leave rows that are not full. We do the same to get the same
// rows. It also bounds the time to find the best fit.
#include "data/dataset/packing_plan.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <utility>

namespace reprise::data {
namespace {

constexpr size_t kBatchExamples = 1000;

using Pieces = std::vector<PackedPiece>;

/// Appends the tokens [0, count) of an example in pieces of at most `longest`.
void append_split(Pieces& pieces, int64_t example, int64_t count, int64_t longest) {
  for (int64_t begin = 0; begin < count; begin += longest) {
    const int64_t end = std::min(begin + longest, count);
    pieces.push_back({example, static_cast<int32_t>(begin), static_cast<int32_t>(end)});
  }
}

/// Longest first, each into the fullest row that has room for it; among equally full rows, into the
/// one that reached this fill level first.
std::vector<Pieces> best_fit(Pieces pieces, int64_t row_length) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) {
    return a.size() > b.size();
  });
  std::vector<Pieces> rows;
  std::map<int64_t, std::deque<size_t>> rows_with_room;
  for (const PackedPiece& piece : pieces) {
    const auto fit = rows_with_room.lower_bound(piece.size());
    int64_t room = row_length;
    size_t row = rows.size();
    if (fit == rows_with_room.end()) {
      rows.emplace_back();
    } else {
      room = fit->first;
      row = fit->second.front();
      fit->second.pop_front();
      if (fit->second.empty()) {
        rows_with_room.erase(fit);
      }
    }
    rows[row].push_back(piece);
    rows_with_room[room - piece.size()].push_back(row);
  }
  return rows;
}

/// All tokens in order, cut wherever a row is full.
std::vector<Pieces> wrap(std::span<const int64_t> lengths, int64_t first, int64_t row_length) {
  std::vector<Pieces> rows;
  int64_t room = 0;
  for (size_t i = 0; i < lengths.size(); ++i) {
    for (int64_t begin = 0; begin < lengths[i];) {
      if (room == 0) {
        rows.emplace_back();
        room = row_length;
      }
      const int64_t end = std::min(lengths[i], begin + room);
      rows.back().push_back({first + static_cast<int64_t>(i),
                             static_cast<int32_t>(begin),
                             static_cast<int32_t>(end)});
      room -= end - begin;
      begin = end;
    }
  }
  return rows;
}

std::vector<Pieces> pack_batch(std::span<const int64_t> lengths,
                               int64_t first,
                               Packing packing,
                               int64_t row_length) {
  if (packing == Packing::Wrapped) {
    return wrap(lengths, first, row_length);
  }
  Pieces pieces;
  for (size_t i = 0; i < lengths.size(); ++i) {
    // BestFit truncates documents that are longer than a row.
    const int64_t count =
        packing == Packing::BestFit ? std::min(lengths[i], row_length) : lengths[i];
    append_split(pieces, first + static_cast<int64_t>(i), count, row_length);
  }
  return best_fit(std::move(pieces), row_length);
}

}  // namespace

std::span<const PackedPiece> PackingPlan::row(int64_t index) const {
  TORCH_CHECK(index >= 0 && index < rows(),
              "[data] expected a packed row in [0, ",
              rows(),
              "), found ",
              index);
  const auto i = static_cast<size_t>(index);
  const auto begin = static_cast<size_t>(i == 0 ? 0 : row_ends[i - 1]);
  return std::span(pieces).subspan(begin, static_cast<size_t>(row_ends[i]) - begin);
}

PackingPlan plan_packing(std::span<const int64_t> lengths, Packing packing, int64_t row_length) {
  constexpr int64_t kLongest = std::numeric_limits<int32_t>::max();
  TORCH_CHECK(row_length > 0 && row_length <= kLongest,
              "[data] expected packed rows of 1 to ",
              kLongest,
              " tokens, found ",
              row_length);
  PackingPlan plan;
  for (size_t first = 0; first < lengths.size(); first += kBatchExamples) {
    const auto batch = lengths.subspan(first, std::min(kBatchExamples, lengths.size() - first));
    for (const Pieces& row : pack_batch(batch, static_cast<int64_t>(first), packing, row_length)) {
      plan.pieces.insert(plan.pieces.end(), row.begin(), row.end());
      plan.row_ends.push_back(static_cast<int64_t>(plan.pieces.size()));
    }
  }
  return plan;
}

}  // namespace reprise::data
