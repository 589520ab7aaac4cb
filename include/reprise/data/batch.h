// Examples put together to tensors.
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

/// Rows of token ids. Padded rows: (B, T) and a mask. Packed rows: (B, T) and document numbers too;
/// there the first label of each document is kIgnoredLabel, since no token before it predicts it.
struct TokenBatch {
  at::Tensor input_ids;       ///< (B, T) int64
  at::Tensor attention_mask;  ///< (B, T) int64, 0: padding
  at::Tensor labels;          ///< (B, T) int64, aligned with input_ids; kIgnoredLabel: none
  at::Tensor soft_labels;     ///< (B, T) float32, or undefined
  at::Tensor position_ids;    ///< undefined unless packed
  at::Tensor document_ids;    ///< from 0; undefined unless packed; padding of a row is its own
  /// Runs of tokens that see each other, as ModelInput takes them: documents of packed rows,
  /// otherwise rows; padding of a row is its own.
  at::Tensor document_starts;
  int64_t longest_document = 0;
  int64_t tokens = 0;  ///< that are not padding
  /// Of the labels that a position predicts: all but those of the first column. Empty: not counted.
  std::optional<TargetSummary> targets = {};
};

struct Batch {
  /// Of pairs: all chosen rows, then all rejected rows, so that one forward does both.
  TokenBatch main;
  /// kto: the same prompts with other rows' completions (what the KL term is measured on).
  TokenBatch mismatched;
  at::Tensor margin;     ///< (B) float32: rm
  at::Tensor desirable;  ///< (B) bool: kto
  std::vector<RowPlace> rows;
  std::vector<int64_t> indices;  ///< of the examples in their data set, if the caller filled it in
};

struct CollateOptions {
  int64_t pad_id = 0;
  bool pad_left = false;
  int64_t pad_to_multiple_of = 1;
  /// The sequences of an example are documents of one row, not a pair.
  bool packed = false;
  /// All sequences one after the other in a single row, with document numbers; padded only to
  /// pad_to_multiple_of.
  bool padding_free = false;
  /// kto: make `mismatched`: each prompt with the completion of the example before it, the first
  /// with that of the last (or of its neighbour).
  bool mismatch = false;
  /// A prompt's completion in `mismatched` is that of the next row, as in OpenRLHF; otherwise that
  /// of the row before, as in TRL.
  bool mismatch_with_next = false;
  /// Rows, also mismatched ones, are cut behind it; 0: not. kto needs it, see
  /// RowOptions::max_length.
  int64_t max_length = 0;
};

/// The examples before the first and behind the last of a batch, where it is a part of what several
/// processes have at a time; null: the last and the first of the batch itself.
struct Neighbours {
  const Example* before = nullptr;
  const Example* after = nullptr;
};

/// Throws if there are no examples, or they are not all of one shape (one sequence, or two).
REPRISE_API Batch collate(std::span<const Example> examples,
                          const CollateOptions& options,
                          const Neighbours& neighbours = {});

/// The batch on another device.
REPRISE_API Batch to_device(const Batch& batch, at::Device device);

}  // namespace reprise
