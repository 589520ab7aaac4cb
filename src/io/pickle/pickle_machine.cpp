#include "io/pickle/pickle_machine.h"

#include "io/safetensors/safetensors_format.h"

#include <c10/util/Exception.h>

#include <bit>
#include <cstring>
#include <iterator>
#include <unordered_map>
#include <utility>

namespace reprise::io {

const char* name_of(PickleValue::Kind kind) {
  switch (kind) {
    case PickleValue::Kind::None:
      return "None";
    case PickleValue::Kind::Bool:
      return "a bool";
    case PickleValue::Kind::Int:
      return "an integer";
    case PickleValue::Kind::Float:
      return "a float";
    case PickleValue::Kind::Text:
      return "a string";
    case PickleValue::Kind::Tuple:
      return "a tuple";
    case PickleValue::Kind::List:
      return "a list";
    case PickleValue::Kind::Dict:
      return "a dictionary";
    case PickleValue::Kind::Global:
      return "a class or function";
    case PickleValue::Kind::Storage:
      return "a storage";
    case PickleValue::Kind::Tensor:
      return "a tensor";
  }
  return "a value";
}

namespace {

static_assert(std::endian::native == std::endian::little, "pickles are little-endian");

using Kind = PickleValue::Kind;

constexpr size_t kMaxValues = size_t{1} << 20;  // 60,000 tensors
constexpr size_t kMaxText = size_t{1} << 16;

class Machine {
 public:
  Machine(std::string_view bytes, const std::string& source)
      : rest_(bytes), where_("[torch] " + source + ": data.pkl: ") {}

  Pickle run() {
    while (true) {
      const auto opcode = static_cast<unsigned char>(take(1)[0]);
      if (opcode == '.') {
        break;
      }
      if (!run_value(opcode) && !run_container(opcode) && !run_memo(opcode) &&
          !run_object(opcode)) {
        refuse_opcode(opcode);
      }
    }
    pickle_.top = pop();
    return std::move(pickle_);
  }

 private:
  std::string_view take(size_t count) {
    TORCH_CHECK(count <= rest_.size(),
                where_,
                "expected ",
                count,
                " more bytes, found ",
                rest_.size(),
                "; the file is truncated or damaged");
    const auto bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string text(size_t bytes) {
    TORCH_CHECK(bytes <= kMaxText,
                where_,
                "expected a string of at most ",
                kMaxText,
                " bytes, found ",
                bytes);
    return std::string(take(bytes));
  }

  std::string line() {
    const size_t end = rest_.find('\n');
    TORCH_CHECK(end != std::string_view::npos, where_, "expected a line, found none");
    auto found = text(end);
    take(1);
    return found;
  }

  PickleIndex push(PickleValue value) {
    TORCH_CHECK(pickle_.values.size() < kMaxValues,
                where_,
                "expected at most ",
                kMaxValues,
                " values, found more");
    pickle_.values.push_back(std::move(value));
    const auto index = static_cast<PickleIndex>(pickle_.values.size() - 1);
    stack_.push_back(index);
    return index;
  }

  PickleIndex pop() {
    TORCH_CHECK(!stack_.empty() && (marks_.empty() || marks_.back() < stack_.size()),
                where_,
                "expected a value on the stack, found none");
    const auto index = stack_.back();
    stack_.pop_back();
    return index;
  }

  PickleValue& top_of_kind(Kind kind) {
    TORCH_CHECK(!stack_.empty(), where_, "expected ", name_of(kind), ", found nothing");
    auto& value = pickle_.values[stack_.back()];
    TORCH_CHECK(
        value.kind == kind, where_, "expected ", name_of(kind), ", found ", name_of(value.kind));
    return value;
  }

  std::vector<PickleIndex> pop_to_mark() {
    TORCH_CHECK(!marks_.empty(), where_, "expected a mark on the stack, found none");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<PickleIndex> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  std::vector<PickleIndex> pop_many(size_t count) {
    std::vector<PickleIndex> items(count);
    for (size_t i = count; i > 0; --i) {
      items[i - 1] = pop();
    }
    return items;
  }

  void push_int(int64_t value) { push({.kind = Kind::Int, .number = value}); }

  void push_long() {
    const size_t length = number<uint8_t>();
    TORCH_CHECK(
        length <= sizeof(int64_t), where_, "expected an integer of 64 bits, found a longer one");
    const auto bytes = take(length);
    int64_t value = 0;
    std::memcpy(&value, bytes.data(), length);
    const bool is_negative =
        length > 0 && length < sizeof(value) && (bytes[length - 1] & 0x80) != 0;
    push_int(is_negative ? value - (int64_t{1} << (8 * length)) : value);
  }

  bool run_value(unsigned char opcode) {
    switch (opcode) {
      case 'N':
        push({});
        return true;
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        push({.kind = Kind::Bool, .number = opcode == 0x88 ? 1 : 0});
        return true;
      case 'J':
        push_int(number<int32_t>());
        return true;
      case 'K':
        push_int(number<uint8_t>());
        return true;
      case 'M':
        push_int(number<uint16_t>());
        return true;
      case 0x8a:  // LONG1
        push_long();
        return true;
      case 'G':  // big-endian; no float matters to tensors
        take(sizeof(double));
        push({.kind = Kind::Float});
        return true;
      case 'X':
        push({.kind = Kind::Text, .text = text(number<uint32_t>())});
        return true;
      case 0x8c:  // SHORT_BINUNICODE
        push({.kind = Kind::Text, .text = text(number<uint8_t>())});
        return true;
      default:
        return false;
    }
  }

  bool run_container(unsigned char opcode) {
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '}':
        push({.kind = Kind::Dict});
        return true;
      case ']':
        push({.kind = Kind::List});
        return true;
      case ')':
        push({.kind = Kind::Tuple});
        return true;
      case 't':
        push({.kind = Kind::Tuple, .items = pop_to_mark()});
        return true;
      case 0x85:  // TUPLE1
      case 0x86:  // TUPLE2
      case 0x87:  // TUPLE3
        push({.kind = Kind::Tuple, .items = pop_many(opcode - 0x84U)});
        return true;
      case 's':
        add_items(pop_many(2), Kind::Dict);
        return true;
      case 'u':
        add_items(pop_to_mark(), Kind::Dict);
        return true;
      case 'a':
        add_items(pop_many(1), Kind::List);
        return true;
      case 'e':
        add_items(pop_to_mark(), Kind::List);
        return true;
      default:
        return false;
    }
  }

  void add_items(const std::vector<PickleIndex>& items, Kind kind) {
    auto& container = top_of_kind(kind);
    TORCH_CHECK(kind != Kind::Dict || items.size() % 2 == 0,
                where_,
                "expected keys and values, found ",
                items.size(),
                " items");
    container.items.insert(container.items.end(), items.begin(), items.end());
  }

  bool run_memo(unsigned char opcode) {
    switch (opcode) {
      case 'q':
        remember(number<uint8_t>());
        return true;
      case 'r':
        remember(number<uint32_t>());
        return true;
      case 0x94:  // MEMOIZE
        remember(static_cast<uint32_t>(memo_.size()));
        return true;
      case 'h':
        recall(number<uint8_t>());
        return true;
      case 'j':
        recall(number<uint32_t>());
        return true;
      default:
        return false;
    }
  }

  void remember(uint32_t place) {
    TORCH_CHECK(!stack_.empty(), where_, "expected a value on the stack, found none");
    memo_[place] = stack_.back();
  }

  void recall(uint32_t place) {
    const auto found = memo_.find(place);
    TORCH_CHECK(
        found != memo_.end(), where_, "expected a value in the memo at ", place, ", found none");
    stack_.push_back(found->second);
  }

  bool run_object(unsigned char opcode) {
    switch (opcode) {
      case 0x80: {  // PROTO
        const int protocol = number<uint8_t>();
        TORCH_CHECK(
            protocol >= 2 && protocol <= 5, where_, "expected protocol 2 to 5, found ", protocol);
        return true;
      }
      case 0x95:  // FRAME
        take(sizeof(uint64_t));
        return true;
      case 'c': {
        const auto module = line(), name = line();
        push({.kind = Kind::Global, .text = module + " " + name});
        return true;
      }
      case 0x93: {  // STACK_GLOBAL
        const auto name = text_of(pop()), module = text_of(pop());
        push({.kind = Kind::Global, .text = module + " " + name});
        return true;
      }
      case 'Q':
        push({.kind = Kind::Storage, .items = items_of(pop(), Kind::Tuple)});
        return true;
      case 'R':
        note_call();
        return true;
      case 'b':  // attributes of an OrderedDict: a state dict's versions
        pop();
        top_of_kind(Kind::Dict);
        return true;
      default:
        return false;
    }
  }

  std::string text_of(PickleIndex index) const {
    const auto& value = pickle_[index];
    TORCH_CHECK(value.kind == Kind::Text, where_, "expected a string, found ", name_of(value.kind));
    return value.text;
  }

  std::vector<PickleIndex> items_of(PickleIndex index, Kind kind) const {
    const auto& value = pickle_[index];
    TORCH_CHECK(
        value.kind == kind, where_, "expected ", name_of(kind), ", found ", name_of(value.kind));
    return value.items;
  }

  void note_call() {
    auto arguments = items_of(pop(), Kind::Tuple);
    const auto& function = pickle_[pop()];
    TORCH_CHECK(function.kind == Kind::Global,
                where_,
                "expected a function, found ",
                name_of(function.kind));
    if (function.text == "collections OrderedDict" && arguments.empty()) {
      push({.kind = Kind::Dict});
    } else if (function.text == "torch._utils _rebuild_tensor_v2") {
      push({.kind = Kind::Tensor, .items = std::move(arguments)});
    } else if (function.text == "torch._utils _rebuild_parameter" && !arguments.empty()) {
      stack_.push_back(arguments.front());
    } else {
      TORCH_CHECK(false,
                  where_,
                  "expected tensors, found a call of ",
                  quoted(function.text),
                  ", which is not run. Save the state_dict alone, or as safetensors");
    }
  }

  [[noreturn]] void refuse_opcode(unsigned char opcode) const {
    TORCH_CHECK(false,
                where_,
                "expected what torch.save writes for a dictionary of tensors, found the pickle "
                "instruction ",
                static_cast<int>(opcode),
                ". Save the state_dict alone, or as safetensors");
  }

  std::string_view rest_;
  std::string where_;
  Pickle pickle_;
  std::vector<PickleIndex> stack_;
  std::vector<size_t> marks_;  // sizes of the stack
  std::unordered_map<uint32_t, PickleIndex> memo_;
};

}  // namespace

Pickle read_pickle(std::string_view bytes, const std::string& source) {
  return Machine(bytes, source).run();
}

}  // namespace reprise::io
