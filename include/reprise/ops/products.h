// Which library multiplies float32 matrices on the CPU. LibTorch has two.
#pragma once

#include <reprise/export.h>

namespace reprise {

/// "oneDNN" or "MKL": the library for the large float32 products of Reprise's models and losses.
/// The processor decides: oneDNN on AMD's with AVX-512, where it takes half of MKL's time. Results
/// of the two differ in the last bits. at::globalContext().setUserEnabledMkldnn(false) chooses MKL.
REPRISE_API const char* cpu_product_library();

}  // namespace reprise
