// The bytes of a fuzzer as a JSON file that says what a model is: read, or refused with c10::Error.
#pragma once

#include <reprise/io/json.h>

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace reprise::testing {

/// Calls read(json), which may throw c10::Error and nothing else.
template <class Read>
int fuzz_json(const uint8_t* data, size_t size, const Read& read) {
  try {
    read(parse_json({reinterpret_cast<const char*>(data), size}, "fuzz"));
  } catch (const c10::Error&) {  // NOLINT(bugprone-empty-catch): refused
  }
  return 0;
}

}  // namespace reprise::testing
