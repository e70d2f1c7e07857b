// A library that is opened when it is needed: a program starts quicker, and runs without it.
#pragma once

#include "common/result.hpp"

#include <string>

#include <dlfcn.h>

namespace common {

// Stays open: threads of the library may live as long as the process.
class SharedLibrary {
 public:
  // flags: as dlopen(3) takes them; RTLD_NOLOAD opens only what is loaded already. The error is
  // dlerror(3)'s text: "libx.so.1: cannot open shared object file: …".
  static Result<SharedLibrary, std::string> open(const std::string& soname,
                                                 int flags = RTLD_NOW | RTLD_LOCAL);

  // False, and `function` is null: the library has no such function.
  template <class Function>
  [[nodiscard]] bool find(const char* name, Function*& function) const {
    function = reinterpret_cast<Function*>(::dlsym(handle_, name));
    return function != nullptr;
  }

  // Closes it; nothing of it may be in use. Functions that were found are gone.
  void close() { ::dlclose(handle_); }

 private:
  explicit SharedLibrary(void* handle) : handle_(handle) {}

  void* handle_;
};

}  // namespace common
