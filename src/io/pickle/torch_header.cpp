#include "io/pickle/torch_header.h"

#include "io/pickle/pickle_machine.h"
#include "io/pickle/zip_directory.h"
#include "io/safetensors/safetensors_format.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

namespace reprise::io {
namespace {

using Kind = PickleValue::Kind;

constexpr uint64_t kMaxPickleBytes = uint64_t{64} << 20;
constexpr size_t kMaxTensorDimensions = 64;
constexpr uint64_t kMaxOrderBytes = 16;  // "little" or "big"

std::optional<at::ScalarType> dtype_of_storage(const std::string& name) {
  static constexpr std::array<std::pair<std::string_view, at::ScalarType>, 10> kStorages = {{
      {"torch FloatStorage", at::kFloat},
      {"torch HalfStorage", at::kHalf},
      {"torch BFloat16Storage", at::kBFloat16},
      {"torch DoubleStorage", at::kDouble},
      {"torch LongStorage", at::kLong},
      {"torch IntStorage", at::kInt},
      {"torch ShortStorage", at::kShort},
      {"torch CharStorage", at::kChar},
      {"torch ByteStorage", at::kByte},
      {"torch BoolStorage", at::kBool},
  }};
  const auto* const found = std::find_if(
      kStorages.begin(), kStorages.end(), [&](const auto& known) { return known.first == name; });
  return found == kStorages.end() ? std::nullopt : std::optional(found->second);
}

/// One file of torch.save: its archive and its pickle.
class TorchFile {
 public:
  TorchFile(uint64_t file_bytes, const ReadBytes& read, const std::string& source)
      : source_(source), entries_(read_zip_directory(file_bytes, read, source)) {
    const ZipEntry& data = entry(folder_ = find_folder(), "data.pkl");
    TORCH_CHECK(data.bytes <= kMaxPickleBytes,
                where(),
                "data.pkl: expected at most ",
                kMaxPickleBytes,
                " bytes, found ",
                data.bytes);
    if (const auto order = entries_.find(folder_ + "byteorder"); order != entries_.end()) {
      const std::string text =
          read(order->second.begin, std::min(order->second.bytes, kMaxOrderBytes));
      TORCH_CHECK(
          text == "little", where(), "byteorder: expected \"little\", found ", quoted(text));
    }
    pickle_ = read_pickle(read(data.begin, data.bytes), source);
  }

  SafetensorsHeader header() const {
    const PickleValue& top = pickle_[pickle_.top];
    TORCH_CHECK(top.kind == Kind::Dict,
                where(),
                "expected a dictionary of tensors, found ",
                name_of(top.kind));
    SafetensorsHeader header;
    header.metadata["format"] = "pt";
    std::set<std::string> names;
    for (size_t i = 0; i + 1 < top.items.size(); i += 2) {
      const PickleValue& key = pickle_[top.items[i]];
      TORCH_CHECK(
          key.kind == Kind::Text, where(), "expected names of tensors, found ", name_of(key.kind));
      TORCH_CHECK(
          names.insert(key.text).second, where(), "two tensors are called ", quoted(key.text));
      header.tensors.push_back(tensor(key.text, pickle_[top.items[i + 1]]));
    }
    std::sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
      return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
    });
    return header;
  }

 private:
  std::string where() const { return "[torch] " + source_ + ": "; }

  // "archive/" for "archive/data.pkl".
  std::string find_folder() const {
    constexpr std::string_view kPickle = "/data.pkl";
    std::optional<std::string> folder;
    for (const auto& [name, entry] : entries_) {
      if (name.ends_with(kPickle) && name.find('/') == name.size() - kPickle.size()) {
        TORCH_CHECK(!folder, where(), "expected one data.pkl in the archive, found two");
        folder = name.substr(0, name.size() - kPickle.size() + 1);
      }
    }
    TORCH_CHECK(folder,
                where(),
                "expected data.pkl in the archive, found none; it was not written by torch.save");
    return *folder;
  }

  const ZipEntry& entry(const std::string& folder, const std::string& name) const {
    const auto found = entries_.find(folder + name);
    TORCH_CHECK(found != entries_.end(),
                where(),
                "expected ",
                quoted(folder + name),
                " in the archive, found none");
    return found->second;
  }

  int64_t whole(PickleIndex index, const std::string& at, const char* what) const {
    const PickleValue& value = pickle_[index];
    TORCH_CHECK(value.kind == Kind::Int && value.number >= 0,
                at,
                what,
                ": expected whole numbers from 0, found ",
                value.kind == Kind::Int ? std::to_string(value.number) : name_of(value.kind));
    return value.number;
  }

  std::vector<int64_t> numbers(PickleIndex index, const std::string& at, const char* what) const {
    const PickleValue& value = pickle_[index];
    TORCH_CHECK(
        value.kind == Kind::Tuple && value.items.size() <= kMaxTensorDimensions,
        at,
        what,
        ": expected a tuple of at most ",
        kMaxTensorDimensions,
        " numbers, found ",
        value.kind == Kind::Tuple ? std::to_string(value.items.size()) : name_of(value.kind));
    std::vector<int64_t> found;
    for (const PickleIndex item : value.items) {
      found.push_back(whole(item, at, what));
    }
    return found;
  }

  struct Storage {
    at::ScalarType dtype = at::kFloat;
    ZipEntry entry;
  };

  // Its persistent id: ("storage", type, key, device, elements).
  Storage storage(const PickleValue& value, const std::string& at) const {
    constexpr size_t kParts = 5;
    TORCH_CHECK(value.kind == Kind::Storage && value.items.size() == kParts,
                at,
                "expected a storage, found ",
                name_of(value.kind));
    const PickleValue& type = pickle_[value.items[1]];
    const PickleValue& key = pickle_[value.items[2]];
    TORCH_CHECK(type.kind == Kind::Global && key.kind == Kind::Text,
                at,
                "expected the type and the key of a storage, found ",
                name_of(type.kind),
                " and ",
                name_of(key.kind));
    const auto dtype = dtype_of_storage(type.text);
    TORCH_CHECK(dtype, at, "this type of storage is not read: ", quoted(type.text));
    const int64_t elements = whole(value.items[4], at, "storage");
    const ZipEntry& bytes = entry(folder_, "data/" + key.text);
    const auto item = static_cast<uint64_t>(c10::elementSize(*dtype));
    TORCH_CHECK(bytes.bytes / item == static_cast<uint64_t>(elements) && bytes.bytes % item == 0,
                at,
                "expected a storage of ",
                elements,
                " elements of ",
                item,
                " bytes, found ",
                bytes.bytes,
                " bytes");
    return {*dtype, bytes};
  }

  // (storage, offset, size, stride, requires_grad, hooks).
  TensorInfo tensor(const std::string& name, const PickleValue& value) const {
    constexpr size_t kNeeded = 4;
    const std::string at = where() + quoted(name) + ": ";
    TORCH_CHECK(value.kind == Kind::Tensor && value.items.size() >= kNeeded,
                at,
                "expected a tensor, found ",
                name_of(value.kind),
                ". Save the state_dict alone, or as safetensors");
    const Storage from = storage(pickle_[value.items[0]], at);
    TensorInfo info;
    info.name = name;
    info.dtype = from.dtype;
    info.shape = numbers(value.items[2], at, "size");
    check_is_contiguous(info.shape, numbers(value.items[3], at, "stride"), at);
    const uint64_t bytes = tensor_bytes(info, source_);
    const auto item = static_cast<uint64_t>(c10::elementSize(info.dtype));
    const auto offset = static_cast<uint64_t>(whole(value.items[1], at, "offset"));
    TORCH_CHECK(offset <= from.entry.bytes / item && bytes <= from.entry.bytes - offset * item,
                at,
                "expected ",
                bytes,
                " bytes from element ",
                offset,
                " on, found a storage of ",
                from.entry.bytes,
                " bytes");
    info.begin = from.entry.begin + offset * item;
    info.end = info.begin + bytes;
    return info;
  }

  static void check_is_contiguous(const std::vector<int64_t>& size,
                                  const std::vector<int64_t>& stride,
                                  const std::string& at) {
    TORCH_CHECK(stride.size() == size.size(),
                at,
                "stride: expected ",
                size.size(),
                " numbers, found ",
                stride.size());
    if (std::find(size.begin(), size.end(), 0) != size.end()) {
      return;
    }
    int64_t expected = 1;
    for (size_t i = size.size(); i > 0; --i) {
      TORCH_CHECK(size[i - 1] == 1 || stride[i - 1] == expected,
                  at,
                  "stride: expected ",
                  expected,
                  " in dimension ",
                  i - 1,
                  ", found ",
                  stride[i - 1],
                  ". Save the tensor after .contiguous()");
      TORCH_CHECK(!__builtin_mul_overflow(expected, size[i - 1], &expected),
                  at,
                  "size: expected at most 2^63 elements, found ",
                  c10::IntArrayRef(size));
    }
  }

  const std::string& source_;
  std::map<std::string, ZipEntry> entries_;
  std::string folder_;
  Pickle pickle_;
};

}  // namespace

bool is_torch_file(std::string_view beginning, const std::string& source) {
  // As the length of a safetensors header, these bytes would be followed by '{'.
  const bool is_json = beginning.size() >= kTorchMark && beginning[kTorchMark - 1] == '{';
  TORCH_CHECK(is_json || !beginning.starts_with("\x80\2"),
              "[torch] ",
              source,
              ": was written by torch.save of PyTorch before 1.6. Convert it with: python3 -c "
              "\"import torch; torch.save(torch.load('FILE', weights_only=True), 'FILE')\"");
  return !is_json && beginning.starts_with("PK\3\4");
}

SafetensorsHeader read_torch_header(uint64_t file_bytes,
                                    const ReadBytes& read,
                                    const std::string& source) {
  return TorchFile(file_bytes, read, source).header();
}

SafetensorsHeader parse_torch_header(std::span<const std::byte> file, const std::string& source) {
  const auto read = [&](uint64_t offset, size_t bytes) {
    return std::string(reinterpret_cast<const char*>(file.data()) + offset, bytes);
  };
  return read_torch_header(file.size(), read, source);
}

}  // namespace reprise::io
