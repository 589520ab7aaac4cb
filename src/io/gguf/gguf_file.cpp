#include "io/gguf/gguf_file.h"

#include "io/gguf/gguf_dequantize.h"
#include "io/gguf/gguf_header.h"

#include <reprise/io/file.h>

#include <string_view>
#include <unordered_map>

namespace reprise::io {

struct GgufFile::Contents {
  explicit Contents(const std::filesystem::path& path)
      : file(path), header(parse_gguf_header(file.bytes(), path.string())) {
    for (const GgufTensor& tensor : header.tensors) {
      by_name.emplace(tensor.name, &tensor);
    }
  }

  MappedFile file;
  GgufHeader header;
  std::unordered_map<std::string_view, const GgufTensor*> by_name;
};

GgufFile::GgufFile(const std::filesystem::path& path)
    : contents_(std::make_shared<const Contents>(path)) {}

const GgufMetadata& GgufFile::metadata() const {
  return contents_->header.metadata;
}

const std::vector<GgufTensor>& GgufFile::tensors() const {
  return contents_->header.tensors;
}

const GgufTensor* GgufFile::find(const std::string& name) const {
  const auto found = contents_->by_name.find(name);
  return found == contents_->by_name.end() ? nullptr : found->second;
}

const std::filesystem::path& GgufFile::path() const {
  return contents_->file.path();
}

void GgufFile::read(const GgufTensor& tensor, std::span<float> values) const {
  dequantize(tensor.type,
             contents_->file.bytes().subspan(tensor.begin, tensor.end - tensor.begin),
             values);
  contents_->file.release(tensor.begin, tensor.end - tensor.begin);
}

}  // namespace reprise::io
