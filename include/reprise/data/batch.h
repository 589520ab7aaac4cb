// Batches: examples collated into tensors.
#pragma once

#include <reprise/data/example.h>
#include <reprise/data/target_summary.h>
#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace reprise {

/// Rows of tokens, padded to a common length T. A packed row holds several documents; the first
/// label of each is then kIgnoredLabel, because no token of the same document precedes it.
struct TokenBatch {
  at::Tensor input_ids;       ///< (B, T) int64
  at::Tensor attention_mask;  ///< (B, T) int64, 0 for padding
  at::Tensor labels;          ///< (B, T) int64, not shifted; kIgnoredLabel where there is none
  at::Tensor soft_labels;     ///< (B, T) float32, or undefined
  at::Tensor position_ids;    ///< (B, T) int64, or undefined unless packed
  /// (B, T) int64: the document of each token, from 0 in every row. The padding of a row counts as
  /// one more document. Undefined unless packed.
  at::Tensor document_ids;
  /// (segments + 1) int32, as ModelInput takes it: cumulative lengths (cu_seqlens) of the segments
  /// whose tokens attend to each other, over all rows. A segment is a document of a packed row or
  /// the tokens of another row; the padding of a row is a segment of its own.
  at::Tensor document_starts;
  int64_t longest_document = 0;  ///< tokens in the longest segment
  int64_t tokens = 0;            ///< tokens that are not padding
  /// Over labels[:, 1:], which are the labels that a position predicts. Empty: not counted.
  std::optional<TargetSummary> targets = {};
};

struct Batch {
  /// For pairs: all chosen rows, then all rejected rows, so that one forward pass covers both.
  TokenBatch main;
  /// kto: the same prompts with completions of other rows, on which the KL term is estimated.
  TokenBatch mismatched;
  at::Tensor margin;     ///< (B) float32, for rm
  at::Tensor desirable;  ///< (B) bool, for kto
  std::vector<RowLocation> rows;
  std::vector<int64_t> indices;  ///< of the examples in their dataset, if the caller filled them in
};

struct CollateOptions {
  int64_t pad_id = 0;
  bool pad_left = false;
  int64_t pad_to_multiple_of = 1;
  /// The sequences of an example are the documents of one packed row, not a pair.
  bool packed = false;
  /// Concatenates all sequences into a single row with document ids. Padding is added only to reach
  /// pad_to_multiple_of.
  bool padding_free = false;
  /// kto: fills `mismatched`, in which each prompt is followed by the completion of the previous
  /// example. The first prompt takes the completion of Neighbours::before, or of the last example.
  bool mismatch = false;
  /// In `mismatched`, takes the completion of the next example (OpenRLHF) instead of the previous
  /// one (TRL).
  bool mismatch_with_next = false;
  /// Truncates rows, mismatched ones too, to this many tokens; 0: no limit. kto needs it, see
  /// RowOptions::max_length. Refused for packed rows.
  int64_t max_length = 0;
};

/// The examples before the first and after the last of a batch, when the batch is one process's
/// part of a larger one. Null: the batch wraps around to its own last or first example.
struct Neighbours {
  const Example* before = nullptr;
  const Example* after = nullptr;
};

/// Throws if there are no examples, or if they do not all have the same number of sequences (one or
/// two).
REPRISE_API Batch collate(std::span<const Example> examples,
                          const CollateOptions& options,
                          const Neighbours& neighbours = {});

/// A copy of the batch with all tensors on `device`.
REPRISE_API Batch to_device(const Batch& batch, at::Device device);

}  // namespace reprise
