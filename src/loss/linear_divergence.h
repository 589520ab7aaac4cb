// A student's head beside a teacher's: the same tokens of both, a chunk at a time.
#pragma once

#include "loss/counting_tokens.h"
#include "loss/head_chunks.h"

#include <reprise/loss/head.h>

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace reprise {

/// What no gradient reaches. Autograd sees it as one argument without tensors.
struct TeacherHead {
  at::Tensor rows;          ///< of the tokens that count
  at::Tensor weight, bias;  ///< of the common vocabulary
  HeadPlan plan;
};

struct TaughtTokens {
  CountingTokens tokens;
  HeadPlan
      plan;  ///< of the student; both plans have the same chunks, types of sums and temperature
  TeacherHead teacher;
};

/// Refuses what does not fit together, and targets beyond the common vocabulary.
TaughtTokens pair_heads(const at::Tensor& student_hidden,
                        const LinearHead& student,
                        const at::Tensor& teacher_hidden,
                        const LinearHead& teacher,
                        const Targets& targets,
                        const DivergenceOptions& options);

/// Calls visit(start, rows, student's logits, teacher's logits) for each chunk. The logits may be
/// written.
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
