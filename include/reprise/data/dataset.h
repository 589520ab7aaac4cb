// Datasets: data files as an indexed list of tokenised examples on disk.
//
// Each file is read once, row by row, tokenised and written to a cache. The cache key is made of
// the file's content, the tokenizer and the options. Training reads from the cache, so a
// file of 100 GB needs disk space but no memory, and a second run starts at once.
#pragma once

#include <reprise/data/example.h>
#include <reprise/data/rows.h>
#include <reprise/export.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace reprise {

/// If files have weights, examples are drawn from the files at random by weight, in order within
/// each file, until one file is exhausted. This is datasets.interleave_datasets with its default
/// stopping_strategy "first_exhausted": no example repeats, and the rest of the other files is left
/// out.
struct DataFile {
  std::filesystem::path path;  ///< JSON Lines or a JSON array, optionally gzipped
  double weight = 0;           ///< share of the mixture; 0 for all files: read one after the other
};

/// $XDG_CACHE_HOME/reprise, or ~/.cache/reprise.
REPRISE_API std::filesystem::path default_cache_folder();

/// A hash of the files' contents and of `settings`, to name something derived from both. Missing
/// files are skipped. In the folder `cache`, unless it is empty, the hashes of files above 64 MiB
/// are kept, for as long as such a file is not touched.
REPRISE_API std::string content_hash(const std::vector<std::filesystem::path>& files,
                                     const Json& settings,
                                     const std::filesystem::path& cache = {});

/// DatasetOptions::tokenizer_key for a model folder: a hash of its tokenizer files and chat
/// templates.
REPRISE_API std::string tokenizer_key(const std::filesystem::path& folder);

/// Parses "a.jsonl", "a.jsonl,b.jsonl" or "a.jsonl:0.3,b.jsonl:0.7". Weights need not sum to 1.
REPRISE_API std::vector<DataFile> parse_data_files(const std::string& text);

struct DatasetOptions {
  std::vector<DataFile> files;
  /// Folder for the caches; empty: default_cache_folder().
  std::filesystem::path cache = {};
  bool skip_bad_rows = false;
  uint64_t seed = 42;  ///< for the mixture
  /// Uses only the first rows; -1: all. In a mixture the limit applies to each file, and again to
  /// the examples drawn.
  int64_t max_samples = -1;
  /// Identifies the tokenizer in the cache key (a hash of its files). Must not be empty.
  std::string tokenizer_key = {};
  /// Called from time to time while rows are tokenised.
  std::function<void(int64_t rows, double fraction)> progress = {};
};

struct DatasetReport {
  int64_t rows = 0;                        ///< rows read
  std::map<std::string, int64_t> dropped;  ///< number of examples dropped, by reason
  std::vector<std::string> bad_rows;       ///< the first few skipped rows, as "file:line: reason"
  int64_t bad_row_count = 0;
  std::string hint;                 ///< first TokenizedRow::hint, as "file:line: hint"
  int64_t hint_count = 0;           ///< rows with a hint
  int64_t ends_with_pad_count = 0;  ///< rows with TokenizedRow::ends_with_pad
  LengthReport lengths;             ///< of the examples before truncation
  std::string format;               ///< the convention that the rows follow
  bool from_cache = false;
};

/// Random access to examples. Reads from files; holds no examples in memory.
class REPRISE_API Dataset {
 public:
  virtual ~Dataset();
  virtual int64_t size() const = 0;
  virtual Example at(int64_t index) const = 0;
  /// Length of the longest sequence of an example, or the total length of a packed row, in tokens.
  /// Does not read the example.
  virtual int64_t length(int64_t index) const = 0;
  /// "data.jsonl:17", for error messages.
  virtual std::string location_name(const RowLocation& location) const = 0;
};

struct OpenedDataset {
  std::shared_ptr<const Dataset> dataset;
  DatasetReport report;
};

/// Opens the caches of the files, and builds those that are missing.
///
/// Throws with file, line and reason for a bad row (unless skip_bad_rows), for an empty file and
/// for rows that follow different conventions. Throws if no example is left, with the reasons for
/// which examples were dropped.
///
/// Examples keep the order of their rows, except for kto on pairs: of every 1000 rows all chosen
/// examples come first, then the rejected ones, as in TRL.
REPRISE_API OpenedDataset open_dataset(const RowTokenizer& rows, const DatasetOptions& options);

enum class Packing : uint8_t {
  BestFit,  ///< documents are truncated to `length`; a row is an Example with one sequence each
  BestFitSplit,  ///< like BestFit, but the rest of a long document becomes further documents
  Wrapped,       ///< all tokens concatenated and cut every `length` tokens
};

/// Packs examples of one sequence into rows of at most `length` tokens. Rows and their order are
/// those of TRL's pack_dataset. Only indices are held in memory.
///
/// A Wrapped row has one sequence without document boundaries, and its `prompt` is 0. It is shorter
/// than `length` only at the end of each block of 1000 examples.
REPRISE_API std::shared_ptr<const Dataset> pack(std::shared_ptr<const Dataset> dataset,
                                                Packing packing,
                                                int64_t length);

/// The order in which an epoch (counted from 0) visits `size` examples: with `shuffle` the order of
/// Hugging Face's Trainer for this seed, otherwise 0, 1, 2, ...
REPRISE_API std::vector<int64_t> epoch_order(int64_t size,
                                             uint64_t seed,
                                             int64_t epoch,
                                             bool shuffle);

}  // namespace reprise
