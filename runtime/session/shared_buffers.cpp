#include "session/shared_buffers.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include <sys/mman.h>

namespace libhvd {

Result<void*> SharedBuffers::allocate(const std::shared_ptr<Segment>& segment, std::size_t bytes) {
  if (bytes == 0 || bytes > PTRDIFF_MAX / 2)
    return fail(HVD_ERROR_INVALID_ARGUMENT,
                "there is no memory of " + std::to_string(bytes) + " bytes");
  const auto shared = memory_->allocate(segment, bytes);
  const std::lock_guard lock(mutex_);
  if (shared.ok()) {
    buffers_.emplace(*shared, Buffer());
    return static_cast<void*>(*shared);
  }
  void* const address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    return fail_errno("cannot allocate " + std::to_string(bytes) + " bytes", errno);
  warn_once(shared.error());
  buffers_.emplace(address, Buffer{Mapping(address, bytes), false});
  return address;
}

Result<void> SharedBuffers::free(void* buffer) {
  const std::lock_guard lock(mutex_);
  HVD_TRY(const auto found, find(buffer, false));
  memory_->free(static_cast<std::byte*>(buffer));
  buffers_.erase(found);
  return {};
}

void SharedBuffers::warn_once(const Error& error) {
  if (std::exchange(warned_, true)) return;
  std::fprintf(stderr, "hvd: collectives will copy buffers: %s\n", error.message.c_str());
}

Result<SharedBuffers::Buffers::iterator> SharedBuffers::find(void* buffer, bool added) {
  const auto found = buffers_.find(buffer);
  if (found != buffers_.end() && found->second.added == added) return found;
  return fail(HVD_ERROR_INVALID_ARGUMENT,
              added ? "this was not given to hvd_register, or was unregistered before"
                    : "this is not memory of hvd_alloc, or was freed before");
}

Result<void> SharedBuffers::add(const std::shared_ptr<Segment>& segment, void* buffer,
                                std::size_t bytes) {
  const std::size_t page = page_bytes();
  if (bytes == 0 || bytes % page != 0 || reinterpret_cast<std::uintptr_t>(buffer) % page != 0)
    return fail(HVD_ERROR_INVALID_ARGUMENT, "address and size must be multiples of a page (" +
                                                std::to_string(page) + " bytes), and not 0");
  if (::msync(buffer, bytes, MS_ASYNC) != 0)
    return fail_errno("there is no memory of " + std::to_string(bytes) + " bytes", errno);
  const std::lock_guard lock(mutex_);
  if (buffers_.contains(buffer)) return fail(HVD_ERROR_INVALID_ARGUMENT, "it is shared already");
  Result<void> adopted = memory_->adopt(segment, static_cast<std::byte*>(buffer), bytes);
  if (!adopted.ok() && adopted.error().status == HVD_ERROR_INVALID_ARGUMENT) return adopted;
  if (!adopted.ok()) warn_once(adopted.error());
  buffers_.emplace(buffer, Buffer{{}, true});
  return {};
}

Result<void> SharedBuffers::remove(void* buffer) {
  const std::lock_guard lock(mutex_);
  HVD_TRY(const auto found, find(buffer, true));
  HVD_CHECK(memory_->disown(static_cast<std::byte*>(buffer)));
  buffers_.erase(found);
  return {};
}

}  // namespace libhvd
