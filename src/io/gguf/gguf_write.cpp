// Header, values, table of tensors, and their bytes, each at a multiple of the alignment.
#include "io/gguf/gguf_write.h"

#include "io/gguf/gguf_dequantize.h"
#include "io/gguf/gguf_quantize.h"

#include <reprise/io/file.h>

#include <ATen/Functions.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <type_traits>

namespace reprise::io {
namespace {

constexpr uint64_t kAlignment = 32;
constexpr uint32_t kMagic = 0x46554747;
constexpr uint32_t kVersion = 3;
constexpr int64_t kPieceElements = int64_t{1} << 20;  // a multiple of every block

uint64_t aligned(uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

template <class T>
constexpr uint32_t type_number() {
  if constexpr (std::is_same_v<T, uint32_t>) {
    return 4;
  } else if constexpr (std::is_same_v<T, int32_t>) {
    return 5;
  } else if constexpr (std::is_same_v<T, float>) {
    return 6;
  } else if constexpr (std::is_same_v<T, bool>) {
    return 7;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return 8;
  } else {
    return 9;  // an array
  }
}

class HeaderText {
 public:
  template <class T>
  void number(T value) {
    const auto* const bytes = reinterpret_cast<const char*>(&value);
    text_.append(bytes, sizeof(T));
  }

  void string(const std::string& value) {
    number<uint64_t>(value.size());
    text_ += value;
  }

  void value(const GgufValue& value) {
    std::visit(
        [this](const auto& held) {
          number(type_number<std::decay_t<decltype(held)>>());
          put(held);
        },
        value);
  }

  void pad() { text_.resize(aligned(text_.size()), '\0'); }
  const std::string& text() const { return text_; }

 private:
  template <class T>
  void put(const T& value) {
    number(value);
  }
  void put(bool value) { number(static_cast<uint8_t>(value)); }
  void put(const std::string& value) { string(value); }
  template <class T>
  void put(const std::vector<T>& items) {
    number(type_number<T>());
    number<uint64_t>(items.size());
    for (const T& item : items) {
      put(item);
    }
  }

  std::string text_;
};

int64_t elements_of(const GgufOutput& tensor) {
  int64_t elements = 1;
  for (const int64_t size : tensor.shape) {
    elements *= size;
  }
  return elements;
}

uint64_t bytes_of(const GgufOutput& tensor) {
  const GgufBlock block = gguf_block(tensor.type);
  TORCH_INTERNAL_ASSERT(!tensor.shape.empty() &&
                        static_cast<uint64_t>(tensor.shape.back()) % block.elements == 0);
  return static_cast<uint64_t>(elements_of(tensor)) / block.elements * block.bytes;
}

std::string header_of(const GgufValues& values, const std::vector<GgufOutput>& tensors) {
  HeaderText header;
  header.number(kMagic);
  header.number(kVersion);
  header.number<uint64_t>(tensors.size());
  header.number<uint64_t>(values.size());
  for (const auto& [key, value] : values) {
    header.string(key);
    header.value(value);
  }
  uint64_t offset = 0;
  for (const GgufOutput& tensor : tensors) {
    header.string(tensor.name);
    header.number(static_cast<uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
      header.number<uint64_t>(static_cast<uint64_t>(*size));
    }
    header.number(static_cast<uint32_t>(tensor.type));
    header.number(offset);
    offset += aligned(bytes_of(tensor));
  }
  header.pad();
  return header.text();
}

void write_tensor(AtomicFile& file, const GgufOutput& tensor, const std::string& where) {
  const at::Tensor made = tensor.make();
  TORCH_INTERNAL_ASSERT(made.sizes() == at::IntArrayRef(tensor.shape) && made.is_cpu());
  const at::Tensor flat = made.reshape({-1});
  const GgufBlock block = gguf_block(tensor.type);
  std::vector<std::byte> bytes;
  for (int64_t done = 0; done < flat.numel(); done += kPieceElements) {
    const int64_t count = std::min(kPieceElements, flat.numel() - done);
    const at::Tensor piece = flat.narrow(0, done, count).to(at::kFloat).contiguous();
    const std::span<const float> values(piece.const_data_ptr<float>(), static_cast<size_t>(count));
    bytes.resize(values.size() / block.elements * block.bytes);
    TORCH_CHECK(quantize(tensor.type, values, bytes),
                where,
                "tensor \"",
                tensor.name,
                "\": has values that ",
                gguf_type_name(static_cast<uint32_t>(tensor.type)),
                " cannot hold (too large, or no numbers); bf16 and f32 can");
    file.write(bytes);
  }
  const std::vector<std::byte> padding(aligned(file.written()) - file.written());
  file.write(padding);
}

}  // namespace

uint64_t write_gguf(const std::filesystem::path& path,
                    const GgufValues& values,
                    const std::vector<GgufOutput>& tensors) {
  AtomicFile file(path);
  file.write(header_of(values, tensors));
  for (const GgufOutput& tensor : tensors) {
    write_tensor(file, tensor, "[gguf] " + path.string() + ": ");
  }
  const uint64_t bytes = file.written();
  file.commit();
  return bytes;
}

}  // namespace reprise::io
