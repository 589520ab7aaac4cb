// GzipSource: decompresses member by member with zlib.
#include "data/files/gzip.h"

#include <c10/util/Exception.h>

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace reprise::data {
namespace {

constexpr size_t kInputBytes = size_t{1} << 18;
constexpr int kGzipOnly =
    16;  // added to the window bits: expect a gzip header and checksum, not zlib's

}  // namespace

GzipSource::GzipSource(std::unique_ptr<ByteSource> compressed, std::string name)
    : compressed_(std::move(compressed)),
      name_(std::move(name)),
      input_(kInputBytes),
      stream_(std::make_unique<z_stream>()) {
  TORCH_CHECK(inflateInit2(stream_.get(), MAX_WBITS + kGzipOnly) == Z_OK,
              "[data] ",
              name_,
              ": cannot initialise zlib");
}

GzipSource::~GzipSource() {
  inflateEnd(stream_.get());
}

/// Reads more input if none is left. Returns false at the end of the file.
bool GzipSource::fill() {
  if (stream_->avail_in == 0) {
    stream_->next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_->avail_in = static_cast<uInt>(compressed_->read(input_));
  }
  return stream_->avail_in > 0;
}

/// Returns false at the end of the file. Zeros between and after members are padding (tape
/// archives).
bool GzipSource::begin_member() {
  while (fill() && *stream_->next_in == 0) {
    ++stream_->next_in;
    --stream_->avail_in;
  }
  if (stream_->avail_in == 0) {
    return false;
  }
  in_member_ = inflateReset(stream_.get()) == Z_OK;
  TORCH_INTERNAL_ASSERT(in_member_);
  return true;
}

size_t GzipSource::read(std::span<char> buffer) {
  const size_t room = std::min<size_t>(buffer.size(), std::numeric_limits<uInt>::max());
  stream_->next_out = reinterpret_cast<Bytef*>(buffer.data());
  stream_->avail_out = static_cast<uInt>(room);
  while (stream_->avail_out > 0 && (in_member_ || begin_member())) {
    TORCH_CHECK(fill(), "[data] ", name_, ": the gzip stream ends early; the file is truncated");
    const int result = inflate(stream_.get(), Z_NO_FLUSH);
    TORCH_CHECK(result == Z_OK || result == Z_STREAM_END,
                "[data] ",
                name_,
                ": broken gzip: ",
                stream_->msg != nullptr ? stream_->msg : "zlib's inflate failed");
    in_member_ = result != Z_STREAM_END;
  }
  return room - stream_->avail_out;
}

}  // namespace reprise::data
