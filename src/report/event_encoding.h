// Encodes TensorBoard's Event messages. Only the fields that are written, by hand: the protobuf
// library would be a heavy dependency for a dozen field numbers (of TensorBoard's event.proto,
// summary.proto and tensor.proto).
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::report {

struct EventTime {
  double wall_time;  ///< seconds since 1970
  int64_t step;
};

using Scalars = std::vector<std::pair<std::string, double>>;

/// The first event of a file.
REPRISE_API std::string version_event(double wall_time);

/// The values of one step, stored as float32.
REPRISE_API std::string scalar_event(const Scalars& scalars, const EventTime& time);

/// Markdown text for TensorBoard's Text page.
REPRISE_API std::string text_event(std::string_view tag,
                                   std::string_view text,
                                   const EventTime& time);

/// Marks that a run was resumed: TensorBoard drops what it had from this step on.
REPRISE_API std::string restart_event(const EventTime& time);

/// An event in the format of the file: length, checksum of the length, bytes, checksum of the
/// bytes.
REPRISE_API std::string framed(std::string_view event);

}  // namespace reprise::report
