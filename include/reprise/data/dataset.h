// Data files as a list of tokenised examples on disk.
//
// Files are read once, row by row, tokenised and written to a cache under a key made of their
// content, the tokenizer and the options; what is trained on is the mapped cache. So a file of 100
// GB needs disk, not memory, and a second run starts at once.
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

/// With weights, examples are drawn from the files by probability, each file's in their order,
/// until one file has given its last: exactly as datasets.interleave_datasets does by default
/// ("first_exhausted"). So no example comes twice, and the rest of the other files is left out.
struct DataFile {
  std::filesystem::path path;  ///< JSON Lines or a JSON array, either also gzipped: see RowReader
  double weight = 0;           ///< share of the mixture; all 0: files are read one after the other
};

/// $XDG_CACHE_HOME/reprise or ~/.cache/reprise.
REPRISE_API std::filesystem::path default_cache_folder();

/// A hash that names what is made of these files with these settings. Large files count by size,
/// time of change, beginning and end; files that are not there do not count.
REPRISE_API std::string content_hash(const std::vector<std::filesystem::path>& files,
                                     const Json& settings);

/// DatasetOptions::tokenizer_key of a model folder: by its tokenizer files and chat templates.
REPRISE_API std::string tokenizer_key(const std::filesystem::path& folder);

/// "a.jsonl", "a.jsonl,b.jsonl", or "a.jsonl:0.3,b.jsonl:0.7". Weights need not sum to 1.
REPRISE_API std::vector<DataFile> parse_data_files(const std::string& text);

struct DatasetOptions {
  std::vector<DataFile> files;
  /// Folder of caches; empty: $XDG_CACHE_HOME/reprise or ~/.cache/reprise.
  std::filesystem::path cache = {};
  bool skip_bad_rows = false;
  uint64_t seed = 42;  ///< of the mixture
  /// Take the first rows only, those of a mixture from each file and again of what was drawn; -1:
  /// all.
  int64_t max_samples = -1;
  /// Part of the cache key: which tokenizer (a hash of its files). Not empty.
  std::string tokenizer_key = {};
  /// Called now and then while rows are tokenised.
  std::function<void(int64_t rows, double fraction)> progress = {};
};

struct DatasetReport {
  int64_t rows = 0;                        ///< read
  std::map<std::string, int64_t> dropped;  ///< examples that rows would have given, by reason
  std::vector<std::string> bad_rows;       ///< the first few that were skipped: file:line: reason
  int64_t bad_row_count = 0;
  std::string hint;        ///< TokenizedRow::hint of the first row with one: file:line: hint
  int64_t hint_count = 0;  ///< rows with one
  std::string format;      ///< which convention
  bool from_cache = false;
};

/// Random access to examples; maps files, holds no example in memory.
class REPRISE_API Dataset {
 public:
  virtual ~Dataset();
  virtual int64_t size() const = 0;
  virtual Example at(int64_t index) const = 0;
  /// Longest sequence's length at an index, of a packed row all its tokens; without reading the
  /// example.
  virtual int64_t length(int64_t index) const = 0;
  /// "data.jsonl:17", for messages.
  virtual std::string place_name(const RowPlace& place) const = 0;
};

struct OpenedDataset {
  std::shared_ptr<const Dataset> dataset;
  DatasetReport report;
};

/// Throws naming file, line and reason for a bad row (unless skip_bad_rows), for a file that is
/// empty, for rows of mixed conventions, and if no example is left, saying what was dropped and
/// why.
///
/// Examples are in the order of their rows, but of 1000 rows of pairs for kto the chosen ones come
/// first, then the rejected, as TRL splits them.
REPRISE_API OpenedDataset open_dataset(const RowTokenizer& rows, const DatasetOptions& options);

enum class Packing : uint8_t { BestFit, BestFitSplit, Wrapped };

/// Rows of at most `length` tokens, each made of several examples of one sequence: the rows of
/// TRL's pack_dataset, in its order. Only indices are kept in memory.
///
/// BestFit: an Example whose sequences are the documents; what a document has beyond `length` is
/// lost. BestFitSplit: the same, but the rest of a long document becomes documents of its own.
/// Wrapped: one sequence, cut wherever it is full, in which documents follow each other unmarked
/// (`prompt` is 0); shorter than `length` only at the end of each 1000 examples.
REPRISE_API std::shared_ptr<const Dataset> pack(std::shared_ptr<const Dataset> dataset,
                                                Packing packing,
                                                int64_t length);

/// The order in which an epoch, counted from 0, visits `size` examples: as Hugging Face's Trainer
/// does with this seed, or as they stand.
REPRISE_API std::vector<int64_t> epoch_order(int64_t size,
                                             uint64_t seed,
                                             int64_t epoch,
                                             bool shuffle);

}  // namespace reprise
