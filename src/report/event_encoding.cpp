// Protobuf's wire format: each field is a key (number and kind) followed by a varint, a fixed
// number of bytes, or a length and that many bytes. Numbers are little-endian, like the machine's.
#include "report/event_encoding.h"

#include "report/crc32c.h"

#include <bit>
#include <cstring>

namespace reprise::report {
namespace {

static_assert(std::endian::native == std::endian::little);

enum class Kind : uint8_t { Varint = 0, Fixed64 = 1, Length = 2, Fixed32 = 5 };

template <class Number>
std::string fixed(Number value) {
  std::string bytes(sizeof(value), '\0');
  std::memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) {
    bytes += static_cast<char>(value | 0x80);
  }
  bytes += static_cast<char>(value);
  return bytes;
}

std::string key(uint32_t field, Kind kind) {
  return varint(field << 3 | static_cast<uint32_t>(kind));
}

std::string integer_field(uint32_t field, int64_t value) {
  return key(field, Kind::Varint) + varint(static_cast<uint64_t>(value));
}

std::string double_field(uint32_t field, double value) {
  return key(field, Kind::Fixed64) + fixed(value);
}

std::string float_field(uint32_t field, float value) {
  return key(field, Kind::Fixed32) + fixed(value);
}

/// A string, bytes or a message.
std::string bytes_field(uint32_t field, std::string_view bytes) {
  return key(field, Kind::Length) + varint(bytes.size()) + std::string(bytes);
}

namespace event {
constexpr uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
}
namespace session_log {
constexpr uint32_t kStatus = 1;
constexpr int64_t kStart = 1;
}  // namespace session_log
namespace summary {
constexpr uint32_t kValue = 1;
}
namespace value {
constexpr uint32_t kTag = 1, kSimpleValue = 2, kTensor = 8, kMetadata = 9;
}
namespace metadata {
constexpr uint32_t kPluginData = 1, kPluginName = 1;
}
namespace tensor {
constexpr uint32_t kDtype = 1, kShape = 2, kStrings = 8, kShapeDimension = 2, kDimensionSize = 1;
constexpr int64_t kString = 7;  // DT_STRING
}  // namespace tensor

std::string time_fields(const EventTime& time) {
  return double_field(event::kWallTime, time.wall_time) + integer_field(event::kStep, time.step);
}

}  // namespace

std::string version_event(double wall_time) {
  return double_field(event::kWallTime, wall_time) +
         bytes_field(event::kFileVersion, "brain.Event:2");
}

std::string scalar_event(const Scalars& scalars, const EventTime& time) {
  std::string values;
  for (const auto& [tag, number] : scalars) {
    values += bytes_field(summary::kValue,
                          bytes_field(value::kTag, tag) +
                              float_field(value::kSimpleValue, static_cast<float>(number)));
  }
  return time_fields(time) + bytes_field(event::kSummary, values);
}

std::string text_event(std::string_view tag, std::string_view text, const EventTime& time) {
  const std::string plugin = bytes_field(metadata::kPluginName, "text");
  const std::string shape =
      bytes_field(tensor::kShapeDimension, integer_field(tensor::kDimensionSize, 1));
  const std::string content = integer_field(tensor::kDtype, tensor::kString) +
                              bytes_field(tensor::kShape, shape) +
                              bytes_field(tensor::kStrings, text);
  const std::string one = bytes_field(value::kTag, tag) + bytes_field(value::kTensor, content) +
                          bytes_field(value::kMetadata, bytes_field(metadata::kPluginData, plugin));
  return time_fields(time) + bytes_field(event::kSummary, bytes_field(summary::kValue, one));
}

std::string restart_event(const EventTime& time) {
  return time_fields(time) +
         bytes_field(event::kSessionLog, integer_field(session_log::kStatus, session_log::kStart));
}

std::string framed(std::string_view event) {
  const std::string length = fixed(static_cast<uint64_t>(event.size()));
  return length + fixed(masked_crc32c(length)) + std::string(event) + fixed(masked_crc32c(event));
}

}  // namespace reprise::report
