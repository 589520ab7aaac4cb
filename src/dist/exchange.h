// Collectives of CPU tensors, as point-to-point messages between all pairs of processes.
//
// Note [Sums in the order of ranks]
// A sum is ((rank 0 + rank 1) + rank 2) + ..., element by element, whatever the size of the tensor
// or the position of an element in a buffer; 16-bit types are summed in float32 and rounded once.
// So a sum is the same to the last bit in all processes and runs, and the same whether gradients
// are summed whole, in parts, or in buckets of another size. Gloo's own ring sums each element in
// an order that depends on its position, and its reduce-scatter sums everything in every process
// and drops the rest.
//
// Every process sends each byte once, to where it is needed: as much as a ring sends, in fewer
// rounds. Sums are computed in chunks: while one is added the next ones are in flight, and the
// buffers do not grow with the tensors.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <mutex>
#include <string>
#include <vector>

namespace reprise::dist {

/// Runs one collective at a time, in one thread. `tag` and `tag + 1` are the same in all processes
/// and belong to this collective alone, so messages of different collectives cannot be mixed up.
/// Tensors are contiguous, and flat except in all_reduce.
class Exchange {
 public:
  explicit Exchange(c10::intrusive_ptr<c10d::Backend> group);

  void all_reduce(const at::Tensor& value, int tag);
  void all_gather(const at::Tensor& whole, const at::Tensor& part, int tag);
  void reduce_scatter(const at::Tensor& part, const at::Tensor& whole, int tag);
  std::vector<std::string> all_gather(const std::string& own, int tag);

  /// Called by another thread: a collective that is waiting gives up and throws `why`.
  void stop(const std::string& why);

  /// Called by another thread from time to time while a collective waits: stops it if a connection
  /// is closed.
  ///
  /// Note [Closed connections]
  /// When a process dies, Gloo notifies the processes that wait for a message from it, except one
  /// that has received half of a message: that one would wait until the timeout. Posting one more
  /// receive on a closed connection fails at once. On an open one it has no effect, because nobody
  /// sends with that tag.
  void check_connections();

 private:
  using Messages = std::vector<c10::intrusive_ptr<c10d::Work>>;

  /// A flat tensor divided into one part per rank. Parts have `part` elements; the last may be
  /// shorter.
  struct Parts {
    at::Tensor whole;
    int64_t part;
    int64_t chunk;  ///< elements per message
    int64_t chunks() const;
    at::Tensor at(int64_t rank, int64_t index) const;
  };

  enum class Result { ForOne, ForAll };

  /// Sums this process's part into `own`, which may be a view of that part.
  void reduce_parts(const Parts& parts, const at::Tensor& own, Result result, int tag);
  Parts parts_of(const at::Tensor& whole, int64_t part) const;
  int64_t peer(int64_t step) const;
  void send(Messages& messages, at::Tensor tensor, int64_t to, int tag);
  void receive(Messages& messages, at::Tensor tensor, int64_t from, int tag);
  void finish(Messages& messages);
  at::Tensor buffer(int64_t slot, const at::Tensor& like);

  c10::intrusive_ptr<c10d::Backend> group_;
  int64_t rank_, size_, chunk_bytes_;
  at::Tensor buffer_;  ///< made at once, so that no step within a memory budget pays for it
  at::Tensor small_;
  std::mutex mutex_;
  c10::intrusive_ptr<c10d::Work> awaited_;
  std::string stopped_;  ///< the reason; empty while running
};

}  // namespace reprise::dist
