// Note [Two libraries, one flag]
// LibTorch's libc10 and Debian's libsentencepiece both export a variable called FLAGS_minloglevel:
// there an int, here an object of 32 bytes. The loader makes them one, libc10's, so the object is
// built over the variables that follow it. One of them decides whether a failed allocation on the
// CPU throws or ends the process, and what it is overwritten with says: ends. It is put right here,
// after both libraries have been initialised, as this one depends on them. Nothing else that lies
// there is used by us. Loading libsentencepiece into a name space of its own would be cleaner, but
// sanitizers refuse it.
#include <c10/util/Logging.h>

C10_DECLARE_bool(caffe2_use_fatal_for_enforce);

namespace {

[[maybe_unused]] const bool kAllocationFailuresThrow = [] {
  FLAGS_caffe2_use_fatal_for_enforce = false;
  return true;
}();

}  // namespace
