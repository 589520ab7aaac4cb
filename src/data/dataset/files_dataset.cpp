// view_files(): maps an index to a file and an index in it.
#include "data/dataset/files_dataset.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {

Dataset::~Dataset() = default;

namespace data {
namespace {

using Caches = std::vector<std::shared_ptr<const ExampleCache>>;

class FilesDataset final : public Dataset {
 public:
  FilesDataset(Caches files, std::vector<std::string> names, std::vector<int64_t> order)
      : files_(std::move(files)), names_(std::move(names)), order_(std::move(order)) {
    int64_t end = 0;
    for (const auto& file : files_) {
      ends_.push_back(end += file->size());
    }
  }

  int64_t size() const override {
    return order_.empty() ? ends_.back() : static_cast<int64_t>(order_.size());
  }

  Example at(int64_t index) const override {
    const auto [file, inner] = find(index);
    Example example = files_[file]->at(inner);
    example.location.file = static_cast<int64_t>(file);
    return example;
  }

  int64_t length(int64_t index) const override {
    const auto [file, inner] = find(index);
    return files_[file]->longest(inner);
  }

  std::string location_name(const RowLocation& location) const override {
    TORCH_CHECK(location.file >= 0 && location.file < static_cast<int64_t>(names_.size()),
                "[data] expected one of ",
                names_.size(),
                " files, found ",
                location.file);
    return names_[static_cast<size_t>(location.file)] + ":" + std::to_string(location.line);
  }

 private:
  std::pair<size_t, int64_t> find(int64_t index) const {
    TORCH_CHECK(index >= 0 && index < size(),
                "[data] expected an example in [0, ",
                size(),
                "), found ",
                index);
    const int64_t position = order_.empty() ? index : order_[static_cast<size_t>(index)];
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), position);
    const auto file = static_cast<size_t>(end - ends_.begin());
    return {file, position - (file == 0 ? 0 : ends_[file - 1])};
  }

  Caches files_;
  std::vector<std::string> names_;
  std::vector<int64_t> order_;
  std::vector<int64_t> ends_;  // of each file's examples
};

}  // namespace

std::shared_ptr<const Dataset> view_files(Caches files,
                                          std::vector<std::string> names,
                                          std::vector<int64_t> order) {
  return std::make_shared<FilesDataset>(std::move(files), std::move(names), std::move(order));
}

}  // namespace data
}  // namespace reprise
