// Serialisation of one Example for the cache.
#pragma once

#include <reprise/data/example.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace reprise::data {

/// Appends the record of `example`, without `location.file`, to `bytes`. Throws if the sequences
/// are inconsistent, or if an id or label does not fit in 32 bits.
void append_record(const Example& example, std::string& bytes);

/// The example, or std::nullopt if the bytes are not exactly one record.
std::optional<Example> parse_record(std::span<const std::byte> bytes);

/// Length of the longest sequence.
int64_t longest_sequence(const Example& example);

}  // namespace reprise::data
