// collate(): examples to tensors. A row is a list of documents: one in a padded row, several in a
// packed row, and all documents in the single row of a padding-free batch.
#include <reprise/data/batch.h>

#include "data/batch/cumulative_lengths.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <utility>

namespace reprise {
namespace {

/// The first `length` tokens of a sequence.
struct Document {
  const TokenSequence* sequence = nullptr;
  int64_t length = 0;
};

using Row = std::vector<Document>;

int64_t length_of(const Row& row) {
  int64_t length = 0;
  for (const Document& document : row) {
    length += document.length;
  }
  return length;
}

Document document_of(const TokenSequence& sequence, int64_t max_length) {
  const size_t length = sequence.ids.size();
  TORCH_CHECK(length > 0, "[batch] a sequence has no tokens");
  TORCH_CHECK(sequence.labels.size() == length &&
                  (sequence.soft_labels.empty() || sequence.soft_labels.size() == length),
              "[batch] a sequence of ",
              length,
              " ids has ",
              sequence.labels.size(),
              " labels and ",
              sequence.soft_labels.size(),
              " soft labels");
  const auto all = static_cast<int64_t>(length);
  TORCH_CHECK(sequence.prompt >= 0 && sequence.prompt <= all,
              "[batch] a sequence of ",
              length,
              " ids has a prompt of ",
              sequence.prompt);
  return {&sequence, max_length > 0 ? std::min(all, max_length) : all};
}

/// Writes documents into the rows of a batch.
class BatchWriter {
 public:
  BatchWriter(const std::vector<Row>& rows, bool has_documents, const CollateOptions& options)
      : pad_left_(options.pad_left) {
    for (const Row& row : rows) {
      width_ = std::max(width_, length_of(row));
    }
    const int64_t multiple = options.pad_to_multiple_of;
    width_ = (width_ + multiple - 1) / multiple * multiple;
    const auto filled = [&](int64_t value) {
      return at::full({static_cast<int64_t>(rows.size()), width_}, value, at::kLong);
    };
    batch_.input_ids = filled(options.pad_id);
    batch_.attention_mask = filled(0);
    batch_.labels = filled(kIgnoredLabel);
    if (!rows.front().front().sequence->soft_labels.empty()) {
      batch_.soft_labels = at::zeros_like(batch_.labels, at::kFloat);
    }
    if (has_documents) {
      batch_.position_ids = filled(0);
      batch_.document_ids = filled(0);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      write_row(static_cast<int64_t>(i), rows[i]);
    }
    batch_.document_starts = lengths_.tensor();
    batch_.longest_document = lengths_.longest();
    batch_.targets = targets_;
  }

  TokenBatch take() { return std::move(batch_); }

 private:
  int64_t* at_row(const at::Tensor& tensor, int64_t row) const {
    return tensor.mutable_data_ptr<int64_t>() + row * width_;
  }

  void write_row(int64_t row, const Row& documents) {
    const int64_t length = length_of(documents);
    batch_.tokens += length;
    int64_t column = pad_left_ ? width_ - length : 0;
    lengths_.add(column);
    if (batch_.document_ids.defined()) {
      std::fill_n(at_row(batch_.document_ids, row), width_, static_cast<int64_t>(documents.size()));
    }
    for (size_t i = 0; i < documents.size(); ++i) {
      write_document(row, column, documents[i], static_cast<int64_t>(i));
      column += documents[i].length;
      lengths_.add(documents[i].length);
    }
    lengths_.add(width_ - column);
    targets_.add({at_row(batch_.labels, row) + 1, static_cast<size_t>(width_ - 1)});
  }

  void write_document(int64_t row, int64_t column, const Document& document, int64_t number) {
    const TokenSequence& sequence = *document.sequence;
    const int64_t length = document.length;
    int64_t* labels = at_row(batch_.labels, row) + column;
    std::copy_n(sequence.ids.begin(), length, at_row(batch_.input_ids, row) + column);
    std::copy_n(sequence.labels.begin(), length, labels);
    std::fill_n(at_row(batch_.attention_mask, row) + column, length, 1);
    TORCH_CHECK(sequence.soft_labels.empty() == !batch_.soft_labels.defined(),
                "[batch] either all or none of the examples must have soft labels");
    if (batch_.soft_labels.defined()) {
      float* soft = batch_.soft_labels.mutable_data_ptr<float>() + row * width_ + column;
      std::copy_n(sequence.soft_labels.begin(), length, soft);
    }
    if (batch_.document_ids.defined()) {
      labels[0] = kIgnoredLabel;
      std::fill_n(at_row(batch_.document_ids, row) + column, length, number);
      int64_t* positions = at_row(batch_.position_ids, row) + column;
      for (int64_t i = 0; i < length; ++i) {
        positions[i] = i;
      }
    }
  }

  bool pad_left_;
  int64_t width_ = 0;
  data::CumulativeLengths lengths_;
  TargetSummary targets_;
  TokenBatch batch_;
};

TokenBatch token_batch(std::vector<Row> rows, const CollateOptions& options) {
  if (options.padding_free) {
    Row all;
    for (const Row& row : rows) {
      all.insert(all.end(), row.begin(), row.end());
    }
    rows = {std::move(all)};
  }
  return BatchWriter(rows, options.packed || options.padding_free, options).take();
}

size_t sequences_of_each(std::span<const Example> examples) {
  const size_t count = examples.front().sequences.size();
  for (const Example& example : examples) {
    TORCH_CHECK(example.sequences.size() == count && (count == 1 || count == 2),
                "[batch] examples must all have one sequence, or all two; found ",
                count,
                " and ",
                example.sequences.size(),
                ". Packed rows need CollateOptions::packed");
  }
  return count;
}

std::vector<Row> packed_rows(std::span<const Example> examples) {
  std::vector<Row> rows;
  for (const Example& example : examples) {
    TORCH_CHECK(!example.sequences.empty(), "[batch] a packed row has no documents");
    Row& row = rows.emplace_back();
    for (const TokenSequence& sequence : example.sequences) {
      row.push_back(document_of(sequence, 0));
    }
  }
  return rows;
}

/// The first sequences of all examples, then the second ones.
std::vector<Row> plain_rows(std::span<const Example> examples, int64_t max_length) {
  std::vector<Row> rows;
  for (size_t i = 0; i < sequences_of_each(examples); ++i) {
    for (const Example& example : examples) {
      rows.push_back({document_of(example.sequences[i], max_length)});
    }
  }
  return rows;
}

/// The prompt of one sequence with the completion of the other.
TokenSequence mismatched(const TokenSequence& asked, const TokenSequence& answered) {
  TokenSequence sequence;
  sequence.prompt = asked.prompt;
  sequence.ids.assign(asked.ids.begin(), asked.ids.begin() + asked.prompt);
  sequence.labels.assign(sequence.ids.size(), kIgnoredLabel);
  const auto completion = answered.ids.begin() + answered.prompt;
  sequence.ids.insert(sequence.ids.end(), completion, answered.ids.end());
  sequence.labels.insert(sequence.labels.end(), completion, answered.ids.end());
  return sequence;
}

// The example whose completion the example at `i` gets.
const Example& other_of(size_t i,
                        std::span<const Example> examples,
                        bool takes_next,
                        const Neighbours& neighbours) {
  const size_t last = examples.size() - 1;
  if (takes_next) {
    return i < last                      ? examples[i + 1]
           : neighbours.after != nullptr ? *neighbours.after
                                         : examples.front();
  }
  return i > 0                          ? examples[i - 1]
         : neighbours.before != nullptr ? *neighbours.before
                                        : examples.back();
}

TokenBatch mismatched_batch(std::span<const Example> examples,
                            const CollateOptions& options,
                            const Neighbours& neighbours) {
  TORCH_CHECK(!options.packed && sequences_of_each(examples) == 1,
              "[batch] mismatch is for examples of one sequence, a prompt and its completion");
  std::vector<TokenSequence> sequences;
  for (size_t i = 0; i < examples.size(); ++i) {
    const Example& other = other_of(i, examples, options.mismatch_with_next, neighbours);
    sequences.push_back(mismatched(examples[i].sequences[0], other.sequences[0]));
  }
  std::vector<Row> rows;
  rows.reserve(sequences.size());
  for (const TokenSequence& sequence : sequences) {
    rows.push_back({document_of(sequence, options.max_length)});
  }
  return token_batch(std::move(rows), options);
}

}  // namespace

Batch collate(std::span<const Example> examples,
              const CollateOptions& options,
              const Neighbours& neighbours) {
  TORCH_CHECK(!examples.empty(), "[batch] there are no examples");
  TORCH_CHECK(options.pad_to_multiple_of > 0 && options.max_length >= 0,
              "[batch] pad_to_multiple_of must be positive and max_length not negative");
  TORCH_CHECK(!options.packed || options.max_length == 0,
              "[batch] packed rows already have their length; max_length does not apply to them");
  Batch batch;
  batch.main = token_batch(
      options.packed ? packed_rows(examples) : plain_rows(examples, options.max_length), options);
  if (options.mismatch) {
    batch.mismatched = mismatched_batch(examples, options, neighbours);
  }
  const auto count = static_cast<int64_t>(examples.size());
  batch.margin = at::empty({count}, at::kFloat);
  batch.desirable = at::empty({count}, at::kBool);
  for (int64_t i = 0; i < count; ++i) {
    const Example& example = examples[static_cast<size_t>(i)];
    batch.margin.mutable_data_ptr<float>()[i] = example.margin;
    batch.desirable.mutable_data_ptr<bool>()[i] = example.desirable;
    batch.rows.push_back(example.location);
  }
  return batch;
}

}  // namespace reprise
