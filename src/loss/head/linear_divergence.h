// The heads of a student and a teacher, over the same tokens, one chunk at a time.
#pragma once

#include "loss/head/head_chunks.h"
#include "loss/head/valid_tokens.h"

#include <reprise/loss/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

/// The teacher gets no gradients. To autograd it is one argument without tensors.
struct TeacherHead {
  at::Tensor rows;          ///< hidden states of the valid tokens
  at::Tensor weight, bias;  ///< restricted to the common vocabulary
  HeadPlan plan;
};

struct HeadPair {
  ValidTokens tokens;
  /// Of the student. Both plans have the same chunks, dtype of sums and temperature.
  HeadPlan plan;
  TeacherHead teacher;
};

/// Throws if the inputs do not fit together or a target is outside the common vocabulary.
HeadPair pair_heads(const at::Tensor& student_hidden,
                    const LinearHead& student,
                    const at::Tensor& teacher_hidden,
                    const LinearHead& teacher,
                    const Targets& targets,
                    const DivergenceOptions& options);

/// Calls visit(start, rows, student_logits, teacher_logits) for each chunk. The logits may be
/// overwritten.
template <class Visit>
void for_each_pair(const at::Tensor& rows,
                   const HeadPlan& plan,
                   ChunkLogits& student,
                   const TeacherHead& teacher,
                   Visit&& visit) {
  ChunkLogits teacher_logits(teacher.plan, teacher.weight, teacher.bias);
  for_each_chunk(rows.size(0), plan, [&](int64_t start, int64_t count) {
    const auto chunk = rows.narrow(0, start, count).to(plan.product);
    const auto teacher_chunk = teacher.rows.narrow(0, start, count).to(teacher.plan.product);
    visit(start, chunk, student.of(chunk), teacher_logits.of(teacher_chunk));
  });
}

}  // namespace reprise
