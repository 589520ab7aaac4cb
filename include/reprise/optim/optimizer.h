// Optimizers over named parameters, with their state as named tensors.
//
// Where a model is spread over processes, each has an optimizer over its parts of the parameters.
// Every update works element by element, so they compute what one optimizer of all would (on a CPU
// up to how kernels round the last few elements of a part).
#pragma once

#include <reprise/dist/world.h>
#include <reprise/export.h>
#include <reprise/io/safetensors.h>
#include <reprise/io/tensor_part.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace reprise {

enum class OptimizerKind : uint8_t { AdamW, RmsProp, Sgd };

struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::AdamW;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;  ///< not applied to biases and norms: decays()
  double momentum = 0;      ///< RMSprop and SGD
  double alpha = 0.99;      ///< RMSprop
};

/// Whether weight decay applies to a parameter of so many dimensions: not to biases and the weights
/// of norms, as in transformers.
REPRISE_API bool decays(const std::string& name, int64_t dimensions);
REPRISE_API bool decays(const std::string& name, const at::Tensor& parameter);

/// Parameters of a 16-bit type get a float32 copy that the updates go to; the parameter is its
/// rounding.
class REPRISE_API Optimizer {
 public:
  using Parameters = std::vector<std::pair<std::string, at::Tensor>>;

  virtual ~Optimizer();
  /// Fused kernels where LibTorch has them for the device.
  static std::unique_ptr<Optimizer> make(const Parameters& parameters,
                                         const OptimizerOptions& options);
  /// Over what this process has of parameters. A part's values and their gradient are what is
  /// updated; of the whole it needs the shape, for weight decay and for state_parts().
  static std::unique_ptr<Optimizer> make(std::vector<TensorPart> parameters,
                                         const OptimizerOptions& options);

  /// One update with the parameters' gradients at this learning rate. A parameter without a
  /// gradient is left alone.
  virtual void step(double learning_rate) = 0;
  void zero_grad();

  /// State to save, not copied: "<parameter>/exp_avg" and so on as torch.optim calls it,
  /// "<parameter>/step" (how often it was updated), and "<parameter>/master", the float32 copy.
  /// load() takes exactly what state() gave for the same parameters and options, and says what is
  /// missing or too much before it changes anything. It sets 16-bit parameters to the rounding of
  /// their copies.
  virtual NamedTensors state() const = 0;
  void load(const SafetensorsFile& file) { load(file, World::single()); }
  /// The same over a world. What is saved are the states of whole parameters, whoever had which
  /// part of them: state_parts() is what this process has of these, and load() takes that much out
  /// of the file. All processes of the world call load().
  virtual std::vector<TensorPart> state_parts() const = 0;
  virtual void load(const SafetensorsFile& file, const World& world) = 0;
  /// Bytes of the state, the float32 copies included.
  virtual int64_t bytes() const;
  /// Moves the state: away while it only takes memory, and back before the next step.
  void move_state(const at::Device& device);

  const Parameters& parameters() const { return parameters_; }
  /// The same with their places in whole parameters.
  const std::vector<TensorPart>& parts() const { return parts_; }
  /// What the updates go to, under the parameters' names and in their order: the float32 copies of
  /// 16-bit parameters, other parameters themselves.
  virtual Parameters wide_parameters() const = 0;

 protected:
  explicit Optimizer(std::vector<TensorPart> parts);
  static int64_t bytes_of(const NamedTensors& tensors);
  std::vector<TensorPart> parts_;
  Parameters parameters_;  ///< the values of parts_
};

/// Scales gradients so that their joint 2-norm is at most `max_norm` (0: only measures), as
/// torch.nn.utils.clip_grad_norm_. Returns the norm before, in float32 on the parameters' device,
/// without waiting for it. Where it is infinite or NaN the gradients are of no use afterwards: look
/// at it before the step.
REPRISE_API at::Tensor clip_grad_norm(const Optimizer::Parameters& parameters, double max_norm);
/// The same where each process has parts of the gradients: the norm is of all of them, to the last
/// bit the same in every process. All call it.
REPRISE_API at::Tensor clip_grad_norm(const Optimizer::Parameters& parameters,
                                      double max_norm,
                                      const World& world);

/// An exponential moving average of parameters, in float32. It begins with their values.
class REPRISE_API MovingAverage {
 public:
  /// Of what is trained: where the optimizer has float32 copies of 16-bit parameters, of these. Of
  /// the roundings it would miss every change that is smaller than their last digit.
  MovingAverage(const Optimizer& optimizer, double decay);
  MovingAverage(const Optimizer::Parameters& parameters, double decay);
  /// average = decay * average + (1 - decay) * parameter
  void update();
  /// The averages, not copied, under the parameters' names: saved, they are a model's weights.
  NamedTensors state() const;
  void load(const SafetensorsFile& file) { load(file, World::single()); }
  /// As Optimizer's.
  std::vector<TensorPart> state_parts() const;
  void load(const SafetensorsFile& file, const World& world);
  /// Puts the averages into the parameters; the destructor of what is returned puts back what was.
  /// In between there is no update(), no second swap(), no state() and no load(). Averages of
  /// float32 parameters change places with them, and what has a float32 copy is rounded from it
  /// again, so only 16-bit and float64 parameters without one are copied. Parameters stay in their
  /// memory; where it is looked at by others, tell them (ParameterKeeper::refresh).
  class Swap;
  std::unique_ptr<Swap> swap();

 private:
  void check_not_swapped() const;

  MovingAverage(std::vector<TensorPart> parts, const Optimizer::Parameters& values, double decay);

  std::vector<TensorPart> parts_;   ///< that a swap changes
  std::vector<at::Tensor> values_;  ///< that are averaged: parameters, or wider copies of them
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
  std::vector<std::pair<at::Tensor, at::Tensor>> copied_;     ///< parameters and what they were
  std::shared_ptr<const char> token_;
};

}  // namespace reprise
