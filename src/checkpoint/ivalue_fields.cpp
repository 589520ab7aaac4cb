// The tensors inside a c10::IValue.
#include <reprise/ivalue_fields.h>
#include <reprise/options.h>

#include <vector>

namespace reprise::detail {
namespace {

bool is_plain(const c10::IValue& value) {
  return value.isNone() || value.isScalar() || value.isString() || value.isDevice() ||
         value.isGenerator() || value.isStream() || value.isEnum() || value.isSymInt() ||
         value.isSymFloat() || value.isSymBool();
}

bool is_list_of_plain(const c10::IValue& value) {
  return value.isIntList() || value.isDoubleList() || value.isBoolList() ||
         value.isComplexDoubleList();
}

[[noreturn]] void refuse(const c10::IValue& value) {
  throw CheckpointError(
      c10::str("[reprise] a c10::IValue that holds ",
               value.tagKind(),
               " cannot be an argument or result of a checkpointed region: it may hide tensors "
               "from it. Pass its tensors, in a list, tuple or dictionary."));
}

void check_key(const c10::IValue& key) {
  TORCH_CHECK(!key.isTensor(),
              "[reprise] a dictionary with tensors as keys cannot be an argument or result of a "
              "checkpointed region. Use names or numbers as keys.");
}

}  // namespace

void visit_ivalue(c10::IValue& value, const std::function<void(at::Tensor&)>& visit) {
  if (value.isTensor()) {
    at::Tensor tensor = value.toTensor();
    visit(tensor);
    value = std::move(tensor);
  } else if (value.isList()) {
    if (is_list_of_plain(value)) {
      return;
    }
    const auto list = value.toList();
    for (size_t i = 0; i < list.size(); ++i) {
      c10::IValue element = list.get(i);
      visit_ivalue(element, visit);
      list.set(i, std::move(element));
    }
  } else if (value.isTuple()) {
    const auto tuple = value.toTuple();
    std::vector<c10::IValue> elements = tuple->elements().vec();
    for (auto& element : elements) {
      visit_ivalue(element, visit);
    }
    tuple->setElements(std::move(elements));
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {  // in the order of insertion
      check_key(entry.key());
      c10::IValue element = entry.value();
      visit_ivalue(element, visit);
      entry.setValue(std::move(element));
    }
  } else if (!is_plain(value)) {
    refuse(value);
  }
}

c10::IValue unshared_ivalue(const c10::IValue& value) {
  if (value.isList()) {
    const auto list = value.toList().copy();
    for (size_t i = 0; i < list.size(); ++i) {
      list.set(i, unshared_ivalue(list.get(i)));
    }
    return list;
  }
  if (value.isTuple()) {
    const auto tuple = value.toTuple();
    std::vector<c10::IValue> elements;
    elements.reserve(tuple->elements().size());
    for (const auto& element : tuple->elements()) {
      elements.push_back(unshared_ivalue(element));
    }
    const auto type = tuple->type();
    return type->schema() != nullptr ? c10::ivalue::Tuple::createNamed(std::move(elements), type)
                                     : c10::ivalue::Tuple::create(std::move(elements));
  }
  if (value.isGenericDict()) {
    const auto dict = value.toGenericDict().copy();
    for (const auto& entry : dict) {
      entry.setValue(unshared_ivalue(entry.value()));
    }
    return dict;
  }
  return value;
}

}  // namespace reprise::detail
