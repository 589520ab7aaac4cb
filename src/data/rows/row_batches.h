// Rows of a file in batches, each batch processed by several threads. Results come back in the
// order of the file, so that neither examples nor errors depend on how threads are scheduled.
#pragma once

#include "data/files/row_reader.h"
#include "text/unicode/utf8.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <vector>

namespace reprise::data {

/// The next rows of a file: at most 1000 rows, about 16 MiB, and `max_rows` unless that is
/// negative. Empty at the end of the file.
std::vector<RowText> read_batch(RowReader& reader, int64_t max_rows);

/// Calls process(row, outcome) for every row, on several threads. If it throws, the message goes to
/// `outcome.error`, as UTF-8 even if it quotes a row that is not, and what process() has already
/// written to the outcome stays.
template <class Outcome, class Process>
std::vector<Outcome> process_rows(const std::vector<RowText>& rows, const Process& process) {
  std::vector<Outcome> outcomes(rows.size());
  at::parallel_for(0, static_cast<int64_t>(rows.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      try {
        process(rows[i], outcomes[i]);
      } catch (const std::bad_alloc&) {  // says nothing about the row
        throw;
      } catch (const c10::Error& error) {
        outcomes[i].error = text::replace_invalid_utf8(error.what_without_backtrace());
      } catch (const std::exception& error) {
        outcomes[i].error = text::replace_invalid_utf8(error.what());
      }
    }
  });
  return outcomes;
}

}  // namespace reprise::data
