// The weight of a linear operator: a tensor, or a matrix that is made for each product.
//
// Note [Weights that are made]
// A quantised weight is dequantised where it is multiplied: in forward, and again in backward for
// the gradient of the input. The matrix is one result of one operator and freed after the product,
// so that the layers of a model take turns with one block of memory. From forward to backward the
// graph holds what the matrix is made from, and nothing that is as wide as the weight. It has no
// gradient.
#pragma once

#include "ops/node.h"

#include <reprise/export.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace reprise::ops {

/// What a matrix (out, in) is made from.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  virtual int64_t out() const = 0;
  virtual int64_t in() const = 0;
  virtual at::Device device() const = 0;
  /// Calls operators, in a dispatch mode that the caller sets. The same values each time.
  virtual at::Tensor make(at::ScalarType type) const = 0;
};

class REPRISE_API Weight {
 public:
  Weight(const at::Tensor& tensor);  // NOLINT(google-explicit-constructor): mostly it is a tensor
  Weight(std::shared_ptr<const WeightSource> source);  // NOLINT(google-explicit-constructor)

  std::vector<int64_t> sizes() const;  ///< (out, in), unless a caller's tensor has others
  int64_t out() const { return sizes().front(); }
  int64_t in() const { return sizes().back(); }
  at::Device device() const { return source_ == nullptr ? tensor_.device() : source_->device(); }
  bool is_made() const { return source_ != nullptr; }
  bool is_trained() const { return source_ == nullptr && tensor_.requires_grad(); }

  /// Undefined if the matrix is made.
  const at::Tensor& tensor() const { return tensor_; }
  /// The tensor as it is, or the matrix in this type, made below autograd.
  at::Tensor for_product(at::ScalarType type) const;

 private:
  friend class SavedWeight;
  at::Tensor tensor_;
  std::shared_ptr<const WeightSource> source_;  // null: tensor_
};

/// A weight in an autograd node.
class SavedWeight {
 public:
  void save(const Weight& weight);
  /// The tensor, or the matrix in this type, which lives as long as the result.
  at::Tensor unpack(at::ScalarType type) const;
  /// The same if it is needed, else an undefined tensor.
  at::Tensor unpack_if(bool is_needed, at::ScalarType type) const {
    return is_needed ? unpack(type) : at::Tensor();
  }
  void release() { tensor_.reset_data(); }

 private:
  SavedVariable tensor_;
  std::shared_ptr<const WeightSource> source_;
};

}  // namespace reprise::ops
