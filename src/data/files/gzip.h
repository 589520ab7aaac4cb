// Streaming decompression of gzip.
#pragma once

#include "data/files/byte_source.h"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct z_stream_s;

namespace reprise::data {

inline constexpr std::array kGzipMagic = {0x1f, 0x8b};

/// Accepts several concatenated members, as `cat a.gz b.gz` and parallel compressors produce.
/// Throws for a stream that ends early or has a wrong checksum: a truncated file must not look like
/// the end of the data.
class GzipSource final : public ByteSource {
 public:
  GzipSource(std::unique_ptr<ByteSource> compressed, std::string name);
  ~GzipSource() override;

  size_t read(std::span<char> buffer) override;
  double fraction() const override { return compressed_->fraction(); }

 private:
  bool fill();
  bool begin_member();

  std::unique_ptr<ByteSource> compressed_;
  std::string name_;
  std::vector<char> input_;
  std::unique_ptr<z_stream_s> stream_;
  bool in_member_ = true;
};

}  // namespace reprise::data
