// TensorBoard's Event messages as bytes. Only the fields that we write, encoded by hand: the
// protobuf library would be a heavy dependency for a dozen field numbers (TensorBoard's
// event.proto, summary.proto and tensor.proto).
#pragma once

#include <reprise/export.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::detail {

struct EventTime {
  double wall_time;  ///< seconds since 1970
  int64_t step;
};

using Scalars = std::vector<std::pair<std::string, double>>;

/// The first event of a file.
REPRISE_API std::string version_event(double wall_time);

/// All values of one step. They are stored as float32.
REPRISE_API std::string scalar_event(const Scalars& scalars, const EventTime& time);

/// A text for TensorBoard's Text page, which reads Markdown.
REPRISE_API std::string text_event(std::string_view tag,
                                   std::string_view text,
                                   const EventTime& time);

/// A run that went on after a stop: TensorBoard forgets what it had from this step on.
REPRISE_API std::string restart_event(const EventTime& time);

/// An event as it lies in the file: length, its checksum, the bytes, their checksum.
REPRISE_API std::string framed(std::string_view event);

}  // namespace reprise::detail
