#include "memory/copy_streams.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <cstring>

namespace reprise::memory {
namespace {

c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

}  // namespace

CopyStreams::~CopyStreams() {
  wait_for_all();
  try {
    synchronize();
  } catch (...) {  // see wait_for_all()
  }
}

CopyMark CopyStreams::start(CopyWay way,
                            const std::vector<TensorCopy>& copies,
                            const CopyMark& earlier) {
  for (const auto& [to, from] : copies) {
    TORCH_INTERNAL_ASSERT(to.is_contiguous() && from.is_contiguous() &&
                          to.dtype() == from.dtype() && to.numel() == from.numel());
    bytes_ += static_cast<int64_t>(to.nbytes());
  }
  if (device_.is_cpu()) {
    for (const auto& [to, from] : copies) {
      // Without references: the caller must keep the bytes.
      at(pieces_, way).push_back({to.data_ptr(), from.const_data_ptr(), to.nbytes(), earlier});
    }
    at(last_, way) = {nullptr, at(done_, way) + at(pieces_, way).size(), way};
  } else {
    at(last_, way) = start_on_gpu(way, copies, earlier);
  }
  return at(last_, way);
}

CopyMark CopyStreams::start_on_gpu(CopyWay way,
                                   const std::vector<TensorCopy>& copies,
                                   const CopyMark& earlier) {
  const c10::impl::VirtualGuardImpl impl(device_.type());
  auto& stream = at(streams_, way);
  if (!stream) {
    stream = impl.getStreamFromGlobalPool(device_);
  }
  c10::Event ready(device_.type());
  ready.record(current_stream(device_));
  ready.block(*stream);
  if (earlier.event != nullptr) {
    earlier.event->block(*stream);
  }
  try {
    const c10::StreamGuard guard(*stream);
    for (const auto& [to, from] : copies) {
      to.copy_(from, /*non_blocking=*/true);
    }
    auto event = std::make_shared<c10::Event>(device_.type());
    event->record(*stream);
    return {std::move(event), 0, way};
  } catch (...) {
    impl.synchronizeStream(*stream);  // the copies that were launched no longer use the tensors
    throw;
  }
}

void CopyStreams::wait(const CopyMark& mark) {
  if (mark.event != nullptr) {
    mark.event->block(current_stream(device_));
  } else {
    run_until(mark);
  }
}

void CopyStreams::wait_for_all() noexcept {
  try {
    for (const CopyMark& mark : last_) {
      wait(mark);
    }
  } catch (...) {  // of a device that has failed: the next use of it reports that
  }
}

void CopyStreams::synchronize() {
  for (const CopyMark& mark : last_) {
    if (mark.event != nullptr) {
      mark.event->synchronize();
    } else {
      run_until(mark);
    }
  }
}

void CopyStreams::run_until(const CopyMark& mark) {
  auto& pieces = at(pieces_, mark.way);
  while (at(done_, mark.way) < mark.end) {
    const Piece piece = pieces.front();
    pieces.pop_front();
    ++at(done_, mark.way);
    run_until(piece.earlier);
    std::memcpy(piece.to, piece.from, piece.bytes);
  }
}

}  // namespace reprise::memory
