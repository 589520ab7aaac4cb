// One Example as bytes, as a cache keeps it.
#pragma once

#include <reprise/data/example.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace reprise::detail {

/// Appends the record of `example`, all but `place.file`, to `bytes`. Throws if the sequences are
/// not consistent, or if an id or label does not fit 32 bits.
void append_record(const Example& example, std::string& bytes);

/// The example, or nothing if these bytes are not exactly one record.
std::optional<Example> parse_record(std::span<const std::byte> bytes);

/// Length of the longest sequence.
int64_t longest_sequence(const Example& example);

}  // namespace reprise::detail
