#include "dist/exchange.h"

#include "dist/ordered_sum.h"

#include <reprise/dist/error_text.h>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace reprise::dist {

namespace {

/// Chunks in flight at once: one is transferred while another is added.
constexpr int64_t kAhead = 2;
/// Total size of the chunks that arrive together, one from each process. Large, because every
/// message wakes threads.
constexpr int64_t kArrivingBytes = int64_t{4} << 20;
constexpr int64_t kLeastChunkBytes = int64_t{64} << 10;
constexpr int64_t kAlignment = 64;
constexpr int kUnusedTag = std::numeric_limits<int>::max();
/// Tensors up to this size are sent whole to every process: one round trip instead of two.
constexpr int64_t kSmallBytes = int64_t{32} << 10;

constexpr int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

at::Tensor bytes_of(std::string& text) {
  return at::from_blob(text.data(), {static_cast<int64_t>(text.size())}, at::kByte);
}

}  // namespace

Exchange::Exchange(c10::intrusive_ptr<c10d::Backend> group)
    : group_(std::move(group)),
      rank_(group_->getRank()),
      size_(group_->getSize()),
      chunk_bytes_(std::max(kArrivingBytes / std::max<int64_t>(size_ - 1, 1), kLeastChunkBytes) /
                   kAlignment * kAlignment),
      buffer_(at::empty({kAhead * (size_ - 1) * chunk_bytes_}, at::kByte)),
      small_(at::empty({size_ * kSmallBytes}, at::kByte)) {}

void Exchange::stop(const std::string& why) {
  const std::scoped_lock lock(mutex_);
  stopped_ = why;
  if (awaited_) {
    awaited_->abort();
  }
}

void Exchange::check_connections() {
  try {
    for (int64_t step = 1; step < size_; ++step) {
      std::vector<at::Tensor> one{at::empty({1}, at::kByte)};
      group_->recv(one, static_cast<int>(peer(step)), kUnusedTag);
    }
  } catch (const std::exception& error) {
    stop(error_text(error));
  }
}

/// The other ranks, starting after this one, so that not all processes send to the same one first.
int64_t Exchange::peer(int64_t step) const {
  return (rank_ + step) % size_;
}

void Exchange::send(Messages& messages, at::Tensor tensor, int64_t to, int tag) {
  if (tensor.numel() > 0) {
    std::vector<at::Tensor> one{std::move(tensor)};
    messages.push_back(group_->send(one, static_cast<int>(to), tag));
  }
}

void Exchange::receive(Messages& messages, at::Tensor tensor, int64_t from, int tag) {
  if (tensor.numel() > 0) {
    std::vector<at::Tensor> one{std::move(tensor)};
    messages.push_back(group_->recv(one, static_cast<int>(from), tag));
  }
}

void Exchange::finish(Messages& messages) {
  for (const auto& message : messages) {
    {
      const std::scoped_lock lock(mutex_);
      TORCH_CHECK(stopped_.empty(), stopped_);
      awaited_ = message;
    }
    message->wait();
  }
  messages.clear();
  const std::scoped_lock lock(mutex_);
  awaited_.reset();
  TORCH_CHECK(stopped_.empty(), stopped_);
}

int64_t Exchange::Parts::chunks() const {
  return divide_up(part, chunk);
}

at::Tensor Exchange::Parts::at(int64_t rank, int64_t index) const {
  const auto end = std::min((rank + 1) * part, whole.numel());
  const auto begin = std::min(rank * part + index * chunk, end);
  return whole.narrow(0, begin, std::min(chunk, end - begin));
}

Exchange::Parts Exchange::parts_of(const at::Tensor& whole, int64_t part) const {
  const auto chunk = chunk_bytes_ / static_cast<int64_t>(whole.element_size());
  return {.whole = whole, .part = part, .chunk = chunk};
}

at::Tensor Exchange::buffer(int64_t slot, const at::Tensor& like) {
  const auto bytes = like.numel() * static_cast<int64_t>(like.element_size());
  return buffer_.narrow(0, slot * chunk_bytes_, bytes).view(like.scalar_type());
}

void Exchange::reduce_parts(const Parts& parts, const at::Tensor& own, Result result, int tag) {
  const int results_tag = tag + 1;
  std::array<Messages, kAhead> arriving;
  Messages others;
  const auto slot = [&](int64_t index, int64_t rank) {
    return (index % kAhead) * (size_ - 1) + (rank < rank_ ? rank : rank - 1);
  };
  const auto start = [&](int64_t index) {
    for (int64_t step = 1; step < size_; ++step) {
      const auto to = peer(step), from = peer(size_ - step);
      receive(arriving[static_cast<size_t>(index % kAhead)],
              buffer(slot(index, from), parts.at(rank_, index)),
              from,
              tag);
      send(others, parts.at(to, index), to, tag);
      if (result == Result::ForAll) {
        // Safe to overwrite: `from` answers only after it has received what was there.
        receive(others, parts.at(from, index), from, results_tag);
      }
    }
  };
  const auto add = [&](int64_t index) {
    finish(arriving[static_cast<size_t>(index % kAhead)]);
    const auto mine = parts.at(rank_, index);
    std::vector<at::Tensor> terms;
    for (int64_t rank = 0; rank < size_; ++rank) {
      terms.push_back(rank == rank_ ? mine : buffer(slot(index, rank), mine));
    }
    const auto target = own.narrow(0, index * parts.chunk, mine.numel());
    ordered_sum(target, terms);
    for (int64_t step = 1; step < size_ && result == Result::ForAll; ++step) {
      send(others, target, peer(step), results_tag);
    }
  };
  for (int64_t index = 0; index < parts.chunks() + kAhead; ++index) {
    if (index >= kAhead) {
      add(index - kAhead);
    }
    if (index < parts.chunks()) {
      start(index);
    }
  }
  finish(others);
}

void Exchange::all_reduce(const at::Tensor& value, int tag) {
  const auto flat = value.view({-1});
  const auto bytes = static_cast<int64_t>(flat.nbytes());
  if (bytes <= kSmallBytes) {
    const auto all = small_.narrow(0, 0, size_ * bytes).view(flat.scalar_type());
    all_gather(all, flat, tag);
    const auto terms = all.view({size_, flat.numel()}).unbind();
    ordered_sum(flat, terms);
    return;
  }
  const auto parts = parts_of(flat, divide_up(flat.numel(), size_));
  const auto begin = std::min(rank_ * parts.part, flat.numel());
  const auto own = flat.narrow(0, begin, std::min(parts.part, flat.numel() - begin));
  reduce_parts(parts, own, Result::ForAll, tag);
}

void Exchange::reduce_scatter(const at::Tensor& part, const at::Tensor& whole, int tag) {
  reduce_parts(parts_of(whole, part.numel()), part, Result::ForOne, tag);
}

void Exchange::all_gather(const at::Tensor& whole, const at::Tensor& part, int tag) {
  const auto part_of = [&](int64_t rank) {
    return whole.narrow(0, rank * part.numel(), part.numel());
  };
  Messages messages;
  for (int64_t step = 1; step < size_; ++step) {
    const auto to = peer(step), from = peer(size_ - step);
    receive(messages, part_of(from), from, tag);
    send(messages, part, to, tag);
  }
  if (part_of(rank_).data_ptr() != part.data_ptr()) {
    part_of(rank_).copy_(part);
  }
  finish(messages);
}

std::vector<std::string> Exchange::all_gather(const std::string& own, int tag) {
  const auto lengths = at::empty({size_}, at::kLong);
  all_gather(lengths, at::full({1}, static_cast<int64_t>(own.size()), at::kLong), tag);
  std::vector<std::string> all;
  for (int64_t rank = 0; rank < size_; ++rank) {
    const auto length = lengths[rank].item<int64_t>();
    all.push_back(rank == rank_ ? own : std::string(static_cast<size_t>(length), '\0'));
  }
  Messages messages;
  for (int64_t step = 1; step < size_; ++step) {
    const auto to = peer(step), from = peer(size_ - step);
    receive(messages, bytes_of(all[static_cast<size_t>(from)]), from, tag + 1);
    send(messages, bytes_of(all[static_cast<size_t>(rank_)]), to, tag + 1);
  }
  finish(messages);
  return all;
}

}  // namespace reprise::dist
