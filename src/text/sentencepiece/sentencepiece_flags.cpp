// Note [Two libraries, one flag]
// LibTorch's libc10 and Debian's libsentencepiece both export a variable FLAGS_minloglevel: an int
// in libc10, an object of 32 bytes in libsentencepiece. The dynamic loader resolves both to
// libc10's, so the object is constructed over the variables that follow the int. One of these
// decides whether a failed CPU allocation throws or aborts, and it is overwritten so that it
// aborts. This file restores it after both libraries are initialised, which is guaranteed because
// this one depends on them. We use no other variable in that memory. Loading libsentencepiece into
// its own namespace (dlmopen) would be cleaner, but the sanitizers do not support it.
#include <c10/util/Logging.h>

C10_DECLARE_bool(caffe2_use_fatal_for_enforce);

namespace {

[[maybe_unused]] const bool kAllocationFailuresThrow = [] {
  FLAGS_caffe2_use_fatal_for_enforce = false;
  return true;
}();

}  // namespace
