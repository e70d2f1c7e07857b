// Opens the libraries that the runtime is built without, and uses only if a program uses a GPU. Any
// thread.
#pragma once

#include "base/error.hpp"
#include "base/process_environment.hpp"
#include "common/shared_library.hpp"

#include <span>

namespace libhvd {

// Opens the library that `variable` names, if it is set. Otherwise opens one that this process
// already has, because two of them in one process would each have their own state; or else the
// first of `sonames`, newest first, that can be opened. The library is never closed, because its
// threads would not survive that. Error (HVD_ERROR_UNSUPPORTED): none can be opened, and why.
Result<SharedLibrary> open_library(const Environment& environment, const char* variable,
                                   std::span<const char* const> sonames);

// Returns the error of a library that is too old to have this function (HVD_ERROR_UNSUPPORTED).
Error lacks_function(const char* name);

}  // namespace libhvd
