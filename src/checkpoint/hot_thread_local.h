// Thread-local variables that every operator or every saved tensor reads.
#pragma once

/// Reads the variable without a call to __tls_get_addr. It takes space that the loader reserves for
/// libraries loaded later, of which there is little: only for a few pointers.
#if defined(__ELF__)
// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): an attribute
#define REPRISE_HOT_THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local
#else
#define REPRISE_HOT_THREAD_LOCAL thread_local
#endif
