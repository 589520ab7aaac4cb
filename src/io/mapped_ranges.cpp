// The table of mapped files, and the handler of SIGBUS that reads it. All that the handler does is
// async-signal-safe: it reads atomics, writes to stderr and ends the process. It never returns to
// code whose data is gone.
#include "io/mapped_ranges.h"

#include <reprise/io/file.h>

#include <c10/util/Exception.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

namespace reprise::io {
namespace {

std::atomic<MappedRange*> first_range = nullptr;
std::mutex ranges_mutex;

/// The range that `address` is in; null if it is in none.
const MappedRange* range_of(uintptr_t address) {
  for (const MappedRange* range = first_range; range != nullptr; range = range->next) {
    const uintptr_t begin = range->begin;
    if (begin != 0 && begin <= address && address < range->end) {
      return range;
    }
  }
  return nullptr;
}

void write_error(const char* text, size_t size) {
  while (size > 0) {
    const ssize_t count = ::write(STDERR_FILENO, text, size);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return;
    }
    text += count;
    size -= static_cast<size_t>(count);
  }
}

void write_error(const char* text) {
  write_error(text, std::strlen(text));
}

void end_with_message(int signal, siginfo_t* info, void* /*context*/) {
  const bool is_fault = info->si_code > 0;  // not sent by a process
  const MappedRange* const range =
      is_fault ? range_of(reinterpret_cast<uintptr_t>(info->si_addr)) : nullptr;
  if (range == nullptr) {  // not ours: as if there were no handler
    ::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  write_error("reprise: [file] ");
  write_error(range->name.data(), range->name_size);
  write_error(": became shorter or unreadable while it was in use\n");
  ::_exit(1);
}

/// An entry that is not in use, or a new one. Called with the lock.
MappedRange* free_range() {
  for (MappedRange* range = first_range; range != nullptr; range = range->next) {
    if (range->begin == 0) {
      return range;
    }
  }
  auto* const range = new MappedRange;  // allow: owning-new
  range->next = first_range;
  first_range = range;
  return range;
}

}  // namespace

MappedRange* add_mapped_range(const void* begin, size_t bytes, std::string_view name) {
  const std::lock_guard lock(ranges_mutex);
  MappedRange* const range = free_range();
  name.remove_prefix(name.size() - std::min(name.size(), range->name.size()));
  std::copy(name.begin(), name.end(), range->name.begin());
  range->name_size = name.size();
  range->end = reinterpret_cast<uintptr_t>(begin) + bytes;
  range->begin = reinterpret_cast<uintptr_t>(begin);
  return range;
}

void remove_mapped_range(MappedRange* range) {
  const std::lock_guard lock(ranges_mutex);
  range->begin = 0;
}

}  // namespace reprise::io

namespace reprise {

void end_on_mapped_file_faults() {
  struct sigaction action {};
  action.sa_sigaction = io::end_with_message;
  action.sa_flags = SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  TORCH_CHECK(::sigaction(SIGBUS, &action, nullptr) == 0, "[file] cannot handle SIGBUS");
}

}  // namespace reprise
