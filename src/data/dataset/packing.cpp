// pack(): a view of a dataset through a PackingPlan. Tokens are read only when a row is requested.
#include "data/dataset/packing_plan.h"

#include <reprise/data/dataset.h>

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

/// Appends the elements [piece.begin, piece.end) of `from` to `to`.
template <class T>
void append_part(std::vector<T>& to, const std::vector<T>& from, const data::PackedPiece& piece) {
  if (!from.empty()) {
    to.insert(to.end(), from.begin() + piece.begin, from.begin() + piece.end);
  }
}

const TokenSequence& only_sequence(const Example& example, const Dataset& dataset) {
  TORCH_CHECK(example.sequences.size() == 1,
              "[data] ",
              dataset.location_name(example.location),
              ": only examples of one sequence can be packed, found ",
              example.sequences.size());
  return example.sequences.front();
}

class PackedDataset final : public Dataset {
 public:
  PackedDataset(std::shared_ptr<const Dataset> dataset, data::PackingPlan plan, bool is_joined)
      : dataset_(std::move(dataset)), plan_(std::move(plan)), is_joined_(is_joined) {}

  int64_t size() const override { return plan_.rows(); }

  Example at(int64_t index) const override {
    Example packed;
    bool is_first = true;
    for (const data::PackedPiece& piece : plan_.row(index)) {
      const Example example = dataset_->at(piece.example);
      const TokenSequence& whole = only_sequence(example, *dataset_);
      if (std::exchange(is_first, false)) {
        packed.location = example.location;
        packed.sequences.emplace_back();
      } else if (!is_joined_) {
        packed.sequences.emplace_back();
      }
      TokenSequence& part = packed.sequences.back();
      append_part(part.ids, whole.ids, piece);
      append_part(part.labels, whole.labels, piece);
      append_part(part.soft_labels, whole.soft_labels, piece);
      part.prompt =
          is_joined_ ? 0 : std::clamp<int64_t>(whole.prompt - piece.begin, 0, piece.size());
    }
    return packed;
  }

  int64_t length(int64_t index) const override {
    int64_t tokens = 0;
    for (const data::PackedPiece& piece : plan_.row(index)) {
      tokens += piece.size();
    }
    return tokens;
  }

  std::string location_name(const RowLocation& location) const override {
    return dataset_->location_name(location);
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
  data::PackingPlan plan_;
  bool is_joined_;
};

}  // namespace

std::shared_ptr<const Dataset> pack(std::shared_ptr<const Dataset> dataset,
                                    Packing packing,
                                    int64_t length) {
  TORCH_CHECK(dataset != nullptr, "[data] expected a dataset to pack, found none");
  std::vector<int64_t> lengths(static_cast<size_t>(dataset->size()));
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[i] = dataset->length(static_cast<int64_t>(i));
  }
  auto plan = data::plan_packing(lengths, packing, length);
  TORCH_CHECK(plan.rows() > 0, "[data] nothing to pack: the examples have no tokens");
  only_sequence(dataset->at(0),
                *dataset);  // fail early: all examples of a dataset have the same shape
  return std::make_shared<PackedDataset>(
      std::move(dataset), std::move(plan), packing == Packing::Wrapped);
}

}  // namespace reprise
