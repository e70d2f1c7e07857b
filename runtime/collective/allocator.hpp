// The caller's way to make room for a result (hvd_options.allocate).
#pragma once

#include <cstddef>

namespace libhvd {

struct Allocator {
  void* (*allocate)(void* context, std::size_t rows) = nullptr;  // null: there is none
  void* context = nullptr;

  explicit operator bool() const { return allocate != nullptr; }
};

}  // namespace libhvd
