// Libraries that the runtime is built without, and opens where a program uses a GPU.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"

#include <span>

namespace libhvd {

// The library that `variable` names, when it is set. Else one that this process already has, as two
// of them in one process would each have their own state; else the first of `sonames`, newest
// first, that can be opened. It is never closed: its threads do not survive that. Error
// (HVD_ERROR_UNSUPPORTED): none can be opened, and why.
Result<void*> open_library(const Environment& environment, const char* variable,
                           std::span<const char* const> sonames);

// dlsym(3). Error (HVD_ERROR_UNSUPPORTED): there is no such function, the library is too old.
Result<void*> find_function(void* library, const char* name);

}  // namespace libhvd
