#include "api/shared_buffers.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include <sys/mman.h>

namespace libhvd {

Result<void*> SharedBuffers::allocate(const std::shared_ptr<SharedMemory>& memory,
                                      std::size_t bytes) {
  if (bytes == 0 || bytes > PTRDIFF_MAX / 2)
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "there is no memory of " + std::to_string(bytes) + " bytes");
  const auto shared = memory->allocate(bytes);
  const std::lock_guard lock(mutex_);
  if (shared.ok()) {
    buffers_.emplace(*shared, Buffer{memory, {}});
    return static_cast<void*>(*shared);
  }
  void* const address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    return fail_errno("cannot allocate " + std::to_string(bytes) + " bytes", errno);
  if (!std::exchange(told_, true)) {
    std::fprintf(stderr, "hvd: collectives will copy buffers: %s\n",
                 shared.error().message.c_str());
  }
  buffers_.emplace(address, Buffer{nullptr, Mapping(address, bytes)});
  return address;
}

Outcome SharedBuffers::free(void* buffer) {
  const std::lock_guard lock(mutex_);
  const auto found = buffers_.find(buffer);
  if (found == buffers_.end())
    return fail(HVD_ERROR_INVALID_ARGUMENT, "this is not memory of hvd_alloc, or was freed before");
  if (found->second.shared) found->second.shared->free(static_cast<std::byte*>(buffer));
  buffers_.erase(found);
  return Done{};
}

}  // namespace libhvd
