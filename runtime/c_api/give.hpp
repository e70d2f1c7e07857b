// Helpers for functions of the C ABI that return a value through a pointer, and for structs of
// options. Any thread; nothing is thrown.
#pragma once

#include "base/error.hpp"
#include "c_api/c_api.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

namespace libhvd {

// Runs compute: () -> Result<T> and puts its value into `where`. Error: `where` is null; that of
// compute, with the function's name before it.
template <class T, class Compute>
hvd_status give(const char* what, T* where, Compute compute) noexcept {
  return guard(what, [&]() -> hvd_status {
    if (where == nullptr) return report(null_pointer(what));
    Result<T> value = compute();
    if (!value.ok()) return report(with_context(what, value.error()));
    *where = std::move(*value);
    return HVD_OK;
  });
}

// Returns a copy of a caller's options, which begin with their struct_size. Fields that an older
// caller's struct lacks are zero. Error: struct_size is out of range; a field that this version
// does not know is not zero. `type` is the struct's name.
template <class Options>
Result<Options> read_struct(const Options* given, const char* type) {
  const std::size_t size = given->struct_size;
  if (size < sizeof(std::size_t) || size > 4096)
    return fail(HVD_ERROR_INVALID_ARGUMENT, std::string(type) + ".struct_size is " +
                                                std::to_string(size) + "; it must be sizeof(" +
                                                type + ")");
  const auto* const bytes = reinterpret_cast<const unsigned char*>(given);
  for (std::size_t i = sizeof(Options); i < size; ++i) {
    if (bytes[i] != 0)
      return fail(HVD_ERROR_INVALID_ARGUMENT,
                  std::string(type) + " asks for what this version of libhvd cannot do");
  }
  Options read{};
  std::memcpy(&read, given, std::min(size, sizeof read));
  return read;
}

}  // namespace libhvd
