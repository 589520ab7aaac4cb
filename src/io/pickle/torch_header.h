// The tensors in a file of torch.save, such as pytorch_model.bin: where their bytes are. Nothing in
// the file is executed (Note [Pickles are data here]).
#pragma once

#include "io/safetensors/safetensors_header.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace reprise::io {

/// Whether a file that begins with these bytes, kTorchMark of them if it has so many, is to be read
/// by read_torch_header(). Throws for files of PyTorch before 1.6, which are no archives.
bool is_torch_file(std::string_view beginning, const std::string& source);
inline constexpr size_t kTorchMark = 9;

/// As read_safetensors_header(), for a dictionary of names and tensors that torch.save wrote.
/// Tensors may share bytes, as tied weights do.
SafetensorsHeader read_torch_header(uint64_t file_bytes,
                                    const ReadBytes& read,
                                    const std::string& source);

/// The same for the bytes of a whole file.
REPRISE_API SafetensorsHeader parse_torch_header(std::span<const std::byte> file,
                                                 const std::string& source);

}  // namespace reprise::io
