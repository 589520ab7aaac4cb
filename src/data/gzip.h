// gzip, decompressed as it is read.
#pragma once

#include "data/byte_source.h"

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct z_stream_s;

namespace reprise::detail {

inline constexpr std::array kGzipMagic = {0x1f, 0x8b};

/// Takes several members one after the other, as `cat a.gz b.gz` and parallel compressors make
/// them. A stream that ends early, or whose checksum is wrong, throws: rows that were cut off must
/// not pass for the end of the data.
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

}  // namespace reprise::detail
