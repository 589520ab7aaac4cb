#include "plan/trace/storage_recorder.h"

#include "plan/measure/activation_counter.h"
#include "plan/measure/op_tensors.h"
#include "plan/trace/storage_facts.h"

#include <algorithm>

namespace reprise::planning {

StorageRecorder::Entry StorageRecorder::new_entry(const at::Tensor& tensor) const {
  Entry entry;
  entry.bytes = counted_bytes(tensor.storage(), trace_.device);
  entry.made = trace_.intervals.size() - 1;
  return entry;
}

void StorageRecorder::add(const at::Tensor& tensor, const Entry& entry) {
  ledger_.add(tensor);
  entries_.push_back(entry);
}

void StorageRecorder::add_made_outside(const at::Tensor& tensor) {
  add(tensor, new_entry(tensor));
}

size_t StorageRecorder::add_made(const at::Tensor& tensor, size_t region, size_t op) {
  Entry entry = new_entry(tensor);
  entry.traced = trace_.storages.size();
  trace_.storages.push_back({.region = region,
                             .op = op,
                             .bytes = entry.bytes,
                             .host_bytes = host_bytes_of(tensor),
                             .compressed = form_of(tensor, trace_.device),
                             .made = entry.made});
  trace_.regions[region].ops[op].bytes += entry.bytes;
  add(tensor, entry);
  return entry.traced;
}

void StorageRecorder::add_remade(const at::Tensor& tensor, size_t traced) {
  Entry entry = new_entry(tensor);
  entry.traced = traced;
  entry.is_remade = true;
  TracedStorage& storage = trace_.storages[traced];
  storage.remade = entry.made;
  storage.used_up = kNone;
  storage.rewritten = kNone;
  add(tensor, entry);
}

void StorageRecorder::note_input(size_t number, size_t region) {
  if (const size_t traced = entries_[number].traced; traced != kNone) {
    trace_.storages[traced].last_input_of = region;
  }
}

void StorageRecorder::note_saved(size_t number, size_t region) {
  if (entries_[number].traced == kNone) {
    return;
  }
  auto& storage = trace_.storages[entries_[number].traced];
  // What an earlier region made is an input of this one, and held as such.
  if (storage.region == region) {
    storage.is_saved = true;
    trace_.regions[region].ops[storage.op].is_saved = true;
  }
}

void StorageRecorder::note_writes(const c10::OperatorHandle& op,
                                  c10::ArrayRef<c10::IValue> arguments) {
  const auto& schema = op.schema();
  if (!schema.is_mutable()) {
    return;
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    const auto* alias = schema.arguments()[i].alias_info();
    if (alias == nullptr || !alias->isWrite()) {
      continue;
    }
    for_each_tensor_of(arguments[i], [&](const at::Tensor& tensor) {
      const auto number = find(tensor);
      if (number && entries_[*number].traced != kNone) {
        auto& storage = trace_.storages[entries_[*number].traced];
        auto& first = entries_[*number].is_remade ? storage.rewritten : storage.written;
        first = std::min(first, trace_.intervals.size());
      }
    });
  }
}

void StorageRecorder::note_forward_ended(size_t region) {
  TracedRegion& traced = trace_.regions[region];
  for (const auto& storage : trace_.storages) {
    if (storage.region == region) {
      const bool is_output = storage.died == kNone;
      traced.output_bytes += is_output ? storage.bytes : 0;
      traced.saved_bytes += storage.is_saved && !is_output ? storage.bytes : 0;
    }
  }
}

int64_t StorageRecorder::note_dead(size_t interval) {
  int64_t bytes = 0;
  ledger_.collect_dead([&](size_t number) {
    Entry& entry = entries_[number];
    bytes += entry.bytes;
    entry.died = interval;
    if (entry.traced != kNone) {
      auto& storage = trace_.storages[entry.traced];
      // Of a storage that is recomputed twice in one step, the later one counts.
      (entry.is_remade ? storage.used_up : storage.died) = interval;
    }
  });
  return bytes;
}

}  // namespace reprise::planning
