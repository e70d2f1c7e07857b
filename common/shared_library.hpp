// A library that is opened at run time (dlopen(3)). So a program starts faster, and also runs where
// the library is missing. Any thread.
#pragma once

#include "common/result.hpp"

#include <string>

#include <dlfcn.h>

namespace common {

// Not closed by a destructor, because threads of the library may live as long as the process.
class SharedLibrary {
 public:
  // Opens a library. `flags` are those of dlopen(3); with RTLD_NOLOAD only if it is loaded already.
  // The error is the text of dlerror(3): "libx.so.1: cannot open shared object file: …".
  static Result<SharedLibrary, std::string> open(const std::string& soname,
                                                 int flags = RTLD_NOW | RTLD_LOCAL);

  // Looks up a function. Returns false and sets `function` to null if the library does not have it.
  template <class Function>
  [[nodiscard]] bool find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    return function != nullptr;
  }

  // Closes the library. Nothing of it may be in use; functions from find() become invalid.
  void close() { ::dlclose(handle_); }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}

  void* handle_;
};

}  // namespace common
