// A library that is opened when it is needed: hvdrun starts quicker, and runs without it.
#pragma once

#include "base/result.hpp"

#include <string>

namespace hvdrun {

// Never closed: threads of the library may live as long as the process.
class SharedLibrary {
 public:
  // Error: "libx.so.1: cannot open shared object file: …".
  static Result<SharedLibrary> open(const std::string& soname);

  // Error: "libx.so.1 has no `name`".
  template <class Function>
  Result<void> find(const char* name, Function*& function) const {
    HVD_TRY(void* const address, address_of(name));
    function = reinterpret_cast<Function*>(address);
    return {};
  }

 private:
  SharedLibrary(std::string soname, void* handle) : soname_(std::move(soname)), handle_(handle) {}
  Result<void*> address_of(const char* name) const;

  std::string soname_;
  void* handle_;
};

}  // namespace hvdrun
