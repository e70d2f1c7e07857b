// The text of --check-build: what this hvdrun can do, and which libraries it finds on this machine.
// For one thread at a time. It cannot fail.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace hvdrun {

// The CUDA kernels of the libhvd that was built with hvdrun.
struct Kernels {
  bool there;
  std::string_view about;  // which GPUs they are for, or why there are none
};
Kernels built_kernels();

// Returns whether the dynamic loader can open a library of that soname.
bool library_opens(const char* soname);

// Returns the text, in the form of horovodrun's.
std::string check_build_text(const std::function<bool(const char* soname)>& opens = library_opens,
                             const Kernels& kernels = built_kernels());

}  // namespace hvdrun
