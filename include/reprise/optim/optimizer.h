// Optimizers over named parameters, with their state as named tensors.
//
// If a model is sharded over processes, each process has an optimizer over its parts of the
// parameters. Together they compute what a single optimizer would (on a CPU, up to how kernels
// round the last few elements of a part). Most update element by element; what others need of a
// part is in block_elements() and updates_whole_parameters().
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_file.h>
#include <reprise/io/tensor_part.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise {

enum class OptimizerKind : uint8_t {
  AdamW,
  AdamW8bit,  ///< moments of 8 bits in blocks of 256, as in bitsandbytes
  AdamWBf16,  ///< moments of 16 bits
  Lion,
  Adafactor,
  Muon,  ///< for hidden matrices (is_hidden_matrix), and AdamW for all else
  RmsProp,
  Sgd,
};

/// "adamw", "adamw_8bit", "adamw_bf16", "lion", "adafactor", "muon", "rmsprop" or "sgd".
REPRISE_API std::string_view name_of(OptimizerKind kind);
/// Also takes the names that transformers has for them, such as "adamw_torch_fused" and
/// "adamw_bnb_8bit". Throws for any other name, and says what to use instead if it is known.
REPRISE_API OptimizerKind parse_optimizer(std::string_view name);
/// What to use instead of an optimizer that transformers has and we do not; empty for other names.
REPRISE_API std::string optimizer_instead_of(std::string_view name);
/// All names that parse_optimizer() takes; the first of a kind is its name_of().
REPRISE_API std::vector<std::string> optimizer_names();

/// A part of a parameter must begin and end at a multiple of this many elements, or at its end.
REPRISE_API int64_t block_elements(OptimizerKind kind);
/// Whether parameters cannot be cut into parts at all.
REPRISE_API bool updates_whole_parameters(OptimizerKind kind);
/// Whether a parameter with this name and number of dimensions is a matrix between the embeddings
/// and the head, which Muon is for.
REPRISE_API bool is_hidden_matrix(std::string_view name, int64_t dimensions);

/// How Muon scales the learning rate for a matrix of R rows and C columns; torch.optim.Muon's
/// adjust_lr_fn.
enum class MuonRate : uint8_t {
  MatchRmsAdamW,      ///< 0.2 sqrt(max(R, C)): then AdamW's rates and weight decay fit
  Original,           ///< sqrt(max(1, R / C))
  SpectralUnclamped,  ///< sqrt(R / C)
};

/// What is in host memory instead of on the device. Everything is computed on the device, with the
/// same bits.
struct Placement {
  /// The state and the float32 copies. An update gets them a slice at a time.
  bool state = false;
  /// Each leaves the device as soon as backward has computed it: see Optimizer::host_gradients().
  bool gradients = false;

  bool operator==(const Placement&) const = default;
};

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::AdamW;
  double beta1 = 0.9;       ///< AdamW and Lion
  double beta2 = 0.999;     ///< AdamW and Lion
  double epsilon = 1e-8;    ///< AdamW and RMSprop
  double weight_decay = 0;  ///< not applied to biases and norms: see decays()
  /// RMSprop, SGD and Muon. Unset: 0.95 for Muon, 0 for the others.
  std::optional<double> momentum = std::nullopt;
  double alpha = 0.99;  ///< RMSprop only: decay of the squared average
  MuonRate muon_rate = MuonRate::MatchRmsAdamW;

  // Adafactor only; see transformers' class for their meaning.
  bool scale_parameter = false;  ///< scale the rate by the root mean square of the parameter
  bool relative_step = false;    ///< relative_step_size() instead of the learning rate
  bool warmup_init = false;      ///< with relative_step: begin with small steps

  /// Of the stochastic rounding of 16-bit parameters and moments. Together with the state it
  /// determines the result.
  uint64_t seed = 0;

  Placement host = {};  ///< what is in host memory
};

/// Whether a Placement in host memory has an effect: not on a CPU, where everything is in
/// host memory, unless its memory is divided for tests (docs/offload.md).
REPRISE_API bool can_offload(const at::Device& device);

/// Adafactor's own learning rate for update number `updates`, from 1.
REPRISE_API double relative_step_size(const OptimizerOptions& options, int64_t updates);

/// Whether weight decay applies to a parameter with this name and number of dimensions. As in
/// transformers, it does not apply to biases and to the weights of norms.
REPRISE_API bool decays(const std::string& name, int64_t dimensions);
REPRISE_API bool decays(const std::string& name, const at::Tensor& parameter);

class HostGradients;

/// A 16-bit parameter gets a float32 master copy. Updates go to the copy, and the parameter is
/// rounded from it. AdamW8bit, AdamWBf16 and Adafactor keep no copy: they update a bfloat16
/// parameter in place, and round stochastically so that small updates count on average.
class REPRISE_API Optimizer {
 public:
  using Parameters = std::vector<std::pair<std::string, at::Tensor>>;

  virtual ~Optimizer();
  /// Uses fused kernels where LibTorch has them for the device.
  static std::unique_ptr<Optimizer> make(const Parameters& parameters,
                                         const OptimizerOptions& options);
  /// Over this process's parts of parameters. The parts' values are updated with their gradients;
  /// the shape of the whole is needed for weight decay and for state_parts().
  static std::unique_ptr<Optimizer> make(std::vector<TensorPart> parameters,
                                         const OptimizerOptions& options);

  /// Updates the parameters with their gradients. A parameter without a gradient is not changed.
  virtual void step(double learning_rate) = 0;
  void zero_grad();
  /// The norm of the gradients, after clipping to `max_norm`: see clip_grad_norm(), which does not
  /// see gradients in host memory.
  at::Tensor clip(double max_norm) const;
  /// Null unless gradients are in host memory. It wants to hear of every backward.
  virtual HostGradients* host_gradients() const = 0;

  /// Moves the state and chooses where gradients will be. Call it when there are none.
  virtual void place(const Placement& host) = 0;

  /// The state to save, not copied: "<parameter>/exp_avg" and so on with torch.optim's names, for
  /// 8 bits "<parameter>/exp_avg" (codes) and "<parameter>/exp_avg/absmax" (maxima of blocks),
  /// "<parameter>/step" (the number of updates), and "<parameter>/master" (the float32 copy).
  /// load() accepts exactly the state() of the same parameters and options; otherwise it throws,
  /// naming what is missing or unexpected, before it changes anything. It rounds 16-bit parameters
  /// from their copies.
  virtual NamedTensors state() const = 0;
  void load(const TensorFile& file) { load(file, World::single()); }
  /// The same over a world. The file has the state of whole parameters, however they were sharded:
  /// state_parts() are this process's parts of it, and load() reads only these. load() is a
  /// collective.
  virtual std::vector<TensorPart> state_parts() const = 0;
  virtual void load(const TensorFile& file, const World& world) = 0;
  /// Bytes of the state, including the float32 copies, wherever they are.
  virtual int64_t bytes() const;
  /// Those of them in host memory.
  virtual int64_t host_bytes() const = 0;
  /// Bytes that updates have moved between host and device so far, both ways together.
  virtual int64_t moved_bytes() const = 0;
  /// What step() takes at most on the device in addition to parameters, gradients and state.
  /// Bounded by a slice of the parameters, for Muon by the largest hidden matrix.
  virtual int64_t update_bytes() const = 0;

  const Parameters& parameters() const { return parameters_; }
  /// The same with their positions in the whole parameters.
  const std::vector<TensorPart>& parts() const { return parts_; }
  /// The tensors that are updated, with the parameters' names and order: the float32 copies of
  /// 16-bit parameters, and the other parameters themselves.
  virtual Parameters wide_parameters() const = 0;

 protected:
  explicit Optimizer(std::vector<TensorPart> parts);
  static int64_t bytes_of(const NamedTensors& tensors);
  std::vector<TensorPart> parts_;
  Parameters parameters_;  ///< the values of parts_
};

/// Scales gradients so that their total 2-norm is at most `max_norm` (0: only measures it), like
/// torch.nn.utils.clip_grad_norm_. Returns the norm before clipping, in float32 on the parameters'
/// device, without synchronizing. If it is infinite or NaN the gradients are useless: check it
/// before the step.
REPRISE_API at::Tensor clip_grad_norm(const Optimizer::Parameters& parameters, double max_norm);
/// The same if each process has parts of the gradients. The norm is over all parts and the same to
/// the last bit in every process. A collective.
REPRISE_API at::Tensor clip_grad_norm(const Optimizer::Parameters& parameters,
                                      double max_norm,
                                      const World& world);

/// An exponential moving average of parameters, in float32. It starts with their values.
class REPRISE_API MovingAverage {
 public:
  /// Averages the optimizer's parameters. For 16-bit parameters it averages their float32 copies,
  /// because the rounded values would miss small changes. The averages are in host memory if the
  /// optimizer's state is.
  MovingAverage(const Optimizer& optimizer, double decay);
  MovingAverage(const Optimizer::Parameters& parameters, double decay);
  /// average = decay * average + (1 - decay) * parameter
  void update();
  /// The averages, not copied, with the parameters' names, so they can be saved as a model's
  /// weights.
  NamedTensors state() const;
  void load(const TensorFile& file) { load(file, World::single()); }
  /// See Optimizer::state_parts.
  std::vector<TensorPart> state_parts() const;
  void load(const TensorFile& file, const World& world);
  /// Puts the averages into the parameters. The destructor of the returned object restores the
  /// parameters. Until then update(), swap(), state() and load() throw. float32 parameters are
  /// exchanged with their averages and parameters with a float32 copy are rounded from it again, so
  /// only other parameters need a backup. Parameters keep their storage; call
  /// ShardedParameters::refresh if other processes use it.
  class Swap;
  std::unique_ptr<Swap> swap();
  /// Moves the averages to host memory, or to the device.
  void place(bool is_on_host);

 private:
  void check_not_swapped() const;

  MovingAverage(std::vector<TensorPart> parts,
                const Optimizer::Parameters& values,
                double decay,
                bool is_on_host);

  std::vector<TensorPart> parts_;   ///< the parameters, which a swap changes
  std::vector<at::Tensor> values_;  ///< what is averaged: parameters or their float32 copies
  std::vector<at::Tensor> averages_;
  double decay_;
  std::weak_ptr<const char> swapped_;  ///< expired unless a Swap is alive
};

class REPRISE_API MovingAverage::Swap {
 public:
  explicit Swap(const MovingAverage& average);
  ~Swap();
  Swap(const Swap&) = delete;
  Swap& operator=(const Swap&) = delete;

 private:
  friend class MovingAverage;
  std::vector<std::pair<at::Tensor, at::Tensor>> exchanged_;  ///< parameters and averages
  std::vector<std::pair<at::Tensor, at::Tensor>> copied_;     ///< parameters and their old values
  std::shared_ptr<const char> token_;
};

}  // namespace reprise
