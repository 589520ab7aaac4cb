#include "train/budget/batch_shape.h"

#include "train/loop/collate_rows.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace reprise {

namespace {

bool are_alike(const BatchShape& a, const BatchShape& b) {
  return a.structure == b.structure && a.sizes.size() == b.sizes.size();
}

}  // namespace

bool BatchShape::covers(const BatchShape& other) const {
  return are_alike(*this, other) &&
         std::equal(sizes.begin(), sizes.end(), other.sizes.begin(), std::greater_equal<>());
}

double BatchShape::way(const BatchShape& from, const BatchShape& to, const BatchShape& wanted) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  if (!are_alike(from, wanted) || !to.covers(from)) {
    return kNever;
  }
  double share = 0;
  for (size_t i = 0; i < wanted.sizes.size(); ++i) {
    const int64_t missing = wanted.sizes[i] - from.sizes[i];
    if (missing > 0) {
      const int64_t span = to.sizes[i] - from.sizes[i];
      share = span == 0 ? kNever
                        : std::max(share, static_cast<double>(missing) / static_cast<double>(span));
    }
  }
  return share;
}

BatchShape BatchShape::between(const BatchShape& from, const BatchShape& to, double share) {
  BatchShape shape = from;
  const auto move = [&](int64_t& value, int64_t end) {
    value += static_cast<int64_t>(std::floor(static_cast<double>(end - value) * share));
  };
  for (size_t i = 0; i < shape.sizes.size(); ++i) {
    move(shape.sizes[i], to.sizes[i]);
  }
  move(shape.rows, to.rows);
  move(shape.length, to.length);
  return shape;
}

BatchShape shape_of(const TokenBatch& tokens) {
  BatchShape shape;
  shape.rows = tokens.input_ids.size(0);
  shape.length = tokens.input_ids.size(1);
  const int64_t places = shape.rows * shape.length;
  shape.sizes = {shape.rows, shape.length, tokens.targets ? tokens.targets->count : places};
  if (tokens.document_starts.defined()) {
    shape.sizes.push_back(tokens.document_starts.numel());
  }
  shape.structure = tokens.document_ids.defined() ? "documents"
                    : tokens.tokens < places      ? "padded"
                                                  : "full";
  shape.structure += tokens.soft_labels.defined() ? ", soft labels" : "";
  return shape;
}

BatchShape shape_of(const Batch& batch) {
  BatchShape shape = shape_of(batch.main);
  shape.rows = std::ssize(batch.rows);
  shape.length = tokens_of_row(batch);
  if (batch.mismatched.input_ids.defined()) {
    const BatchShape other = shape_of(batch.mismatched);
    shape.sizes.insert(shape.sizes.end(), other.sizes.begin(), other.sizes.end());
    shape.structure += "; mismatched " + other.structure;
  }
  return shape;
}

}  // namespace reprise
