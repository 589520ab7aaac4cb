// Rows that need no tokenizer: {"ids": [1, 2]} is an example of these ids of which the first is the
// prompt, {"ids": []} is dropped, {"pair": [[1], [2]]} is two examples, of which the second is not
// desirable and either is dropped where it has no ids. A row's "hint" is its hint.
#pragma once

#include "data/dataset/row_rules.h"

#include <reprise/data/dataset.h>
#include <reprise/io/file.h>

#include <c10/util/Exception.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise::testing {

inline Example example_of(std::vector<int64_t> ids) {
  TokenSequence sequence{.ids = ids, .labels = std::move(ids), .soft_labels = {}, .prompt = 1};
  sequence.labels.front() = kIgnoredLabel;
  return {.sequences = {std::move(sequence)}, .margin = 0, .desirable = true, .location = {}};
}

inline void add_example(const Json& ids, bool is_desirable, TokenizedRow& row) {
  if (ids.empty()) {
    ++row.dropped["no tokens"];
    return;
  }
  row.examples.push_back(example_of(ids));
  row.examples.back().desirable = is_desirable;
}

inline TokenizedRow tokenize_fake_row(const Json& row) {
  TokenizedRow result;
  result.hint = row.value("hint", "");
  if (row.contains("pair")) {
    add_example(row["pair"][0], true, result);
    add_example(row["pair"][1], false, result);
    return result;
  }
  TORCH_CHECK(row["ids"].is_array(), "expected a list of ids, found ", row["ids"].dump());
  add_example(row["ids"], true, result);
  return result;
}

/// Counts the rows it has seen, so that a test can tell whether a file was read.
struct FakeRows {
  std::shared_ptr<std::atomic<int64_t>> seen = std::make_shared<std::atomic<int64_t>>(0);
  Json key = "fake";

  data::RowRules rules() const {
    return {.describe =
                [count = seen](const Json& row) {
                  ++*count;
                  const bool is_pair = row.is_object() && row.contains("pair");
                  TORCH_CHECK(is_pair || (row.is_object() && row.contains("ids")),
                              "expected the key ids or pair");
                  return is_pair ? "a pair" : "ids";
                },
            .tokenize = tokenize_fake_row,
            .key = key};
  }
};

/// A file of rows with one token each: first, first + 1, ...
inline void write_numbers(const std::filesystem::path& path, int64_t first, int64_t count) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    text += "{\"ids\": [" + std::to_string(first + i) + "]}\n";
  }
  write_file(path, text);
}

/// The first id of every example.
inline std::vector<int64_t> first_ids(const Dataset& dataset) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    ids.push_back(dataset.at(i).sequences.at(0).ids.at(0));
  }
  return ids;
}

}  // namespace reprise::testing
