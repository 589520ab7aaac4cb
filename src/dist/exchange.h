// The collectives of CPU tensors, by messages from every process to every other.
//
// Note [Sums in the order of ranks]
// A sum is ((rank 0 + rank 1) + rank 2) + ..., element by element, whatever the size of the tensor
// or where in a buffer an element lies; 16-bit types are summed in float32 and rounded once. So a
// sum is the same to the last bit in all processes and runs, and the same whether gradients are
// summed whole, in parts, or in buckets of another size. Gloo's own ring sums each element in an
// order that depends on its place; and its reduce-scatter sums everything everywhere and drops the
// rest.
//
// Every process sends each byte where it is needed, once: what a ring sends, without its rounds.
// Sums go in chunks: while one is added the next are under way, and the room that they need does
// not grow with the tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <mutex>
#include <string>
#include <vector>

namespace reprise::dist {

/// One collective at a time, in one thread. `tag` is the same in all processes, and it and the next
/// number belong to this collective alone: what others send for another is not taken for it.
/// Tensors are contiguous, and flat but for sums.
class Exchange {
 public:
  explicit Exchange(c10::intrusive_ptr<c10d::Backend> group);

  void sum(const at::Tensor& value, int tag);
  void gather(const at::Tensor& whole, const at::Tensor& part, int tag);
  void reduce(const at::Tensor& part, const at::Tensor& whole, int tag);
  std::vector<std::string> gather(const std::string& own, int tag);

  /// By another thread: whoever waits in here gives up and throws this.
  void stop(const std::string& why);

  /// By another thread, now and then while one waits in here: stops if a connection is closed.
  ///
  /// Note [Closed connections]
  /// When a process dies, Gloo tells those who wait for its messages, but not him whose message was
  /// half there: he would wait until the timeout. Asking a closed connection for one more message
  /// fails at once. On an open one it has no effect: nobody sends with that tag.
  void look_for_losses();

 private:
  using Messages = std::vector<c10::intrusive_ptr<c10d::Work>>;

  /// A flat tensor in parts for the ranks, as long as `part` but the last, which may be shorter.
  struct Parts {
    at::Tensor whole;
    int64_t part;
    int64_t chunk;  ///< elements of a part that travel together
    int64_t chunks() const;
    at::Tensor at(int64_t rank, int64_t index) const;
  };

  enum class Result { ForOne, ForAll };

  /// Sums this process's part into `own`, which may be that part of the whole.
  void reduce(const Parts& parts, const at::Tensor& own, Result result, int tag);
  Parts parts_of(const at::Tensor& whole, int64_t part) const;
  int64_t peer(int64_t step) const;
  void send(Messages& messages, at::Tensor tensor, int64_t to, int tag);
  void receive(Messages& messages, at::Tensor tensor, int64_t from, int tag);
  void finish(Messages& messages);
  at::Tensor room(int64_t slot, const at::Tensor& like);

  c10::intrusive_ptr<c10d::Backend> group_;
  int64_t rank_, size_, chunk_bytes_;
  at::Tensor room_;
  std::mutex mutex_;
  c10::intrusive_ptr<c10d::Work> awaited_;
  std::string stopped_;  ///< why; empty: it is not
};

}  // namespace reprise::dist
