// libFuzzer: any bytes as a data file, plain or gzipped. It is read to its end or refused with
// c10::Error; lines are counted upwards and no row is longer than it may be.
#include "fuzzed_file.h"

#include "data/files/row_reader.h"

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kLongestRow = 256;
  const reprise::testing::FuzzedFile file({data, size});
  try {
    reprise::data::RowReader reader(file.path(), kLongestRow);
    int64_t line = 0;
    while (const auto row = reader.next_text()) {
      if (row->line <= line || row->text.size() > kLongestRow || reader.fraction() > 1) {
        std::abort();
      }
      line = row->line;
      try {
        row->parse();
      } catch (const c10::Error&) {  // not JSON; the rows after it can be read
      }
    }
  } catch (const c10::Error&) {
  }
  return 0;
}
