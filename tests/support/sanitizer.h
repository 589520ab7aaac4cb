// Which sanitizer this build has: 1 or 0. GCC says so with macros, Clang with features.
#pragma once

#ifndef __has_feature
#define __has_feature(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define REPRISE_UNDER_ASAN 1
#else
#define REPRISE_UNDER_ASAN 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define REPRISE_UNDER_TSAN 1
#else
#define REPRISE_UNDER_TSAN 0
#endif
