// A data set of random token ids, for models of any family.
#pragma once

#include <reprise/data/dataset.h>

#include <cstdint>
#include <random>
#include <string>

namespace reprise::testing {

class RandomRows final : public Dataset {
 public:
  RandomRows(int64_t size, int64_t vocabulary) : size_(size), vocabulary_(vocabulary) {}

  int64_t size() const override { return size_; }
  int64_t length(int64_t index) const override { return 5 + index * 7 % 9; }
  std::string location_name(const RowLocation& location) const override {
    return "row " + std::to_string(location.line);
  }

  Example at(int64_t index) const override {
    std::mt19937_64 random(static_cast<uint64_t>(index) + 1);
    TokenSequence row;
    for (int64_t i = 0; i < length(index); ++i) {
      row.ids.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(vocabulary_)));
    }
    row.labels = row.ids;
    row.labels.front() = kIgnoredLabel;
    Example example;
    example.sequences.push_back(std::move(row));
    example.location.line = index + 1;
    return example;
  }

 private:
  int64_t size_, vocabulary_;
};

}  // namespace reprise::testing
