// Device memory, which the double can access and the program cannot.
#include "cuda_double.hpp"

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>

#include <sys/mman.h>
#include <unistd.h>

namespace cuda_double {
namespace {

struct Allocation {
  std::size_t bytes;
  std::byte* view;
  int device;
};

// Never destroyed, since streams may still run while the process exits.
struct Memory {
  std::mutex mutex;
  std::map<std::uintptr_t, Allocation> device;
  std::map<std::uintptr_t, std::size_t> pinned;
};

Memory& memory() {
  static auto* const only = new Memory;
  return *only;
}

template <class Ranges, class Size>
auto find(Ranges& ranges, const void* pointer, Size size) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return ranges.end();
  --after;
  return address - after->first < size(after->second) ? after : ranges.end();
}

auto find_device(const void* pointer) {
  return find(memory().device, pointer, [](const Allocation& own) { return own.bytes; });
}

}  // namespace

int allocate(void** pointer, std::size_t bytes, int device) {
  if (bytes == 0) {
    *pointer = nullptr;
    return kSuccess;
  }
  const int file = ::memfd_create("device", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) return kMemoryAllocation;
  void* const shown = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  void* const view = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  if (shown == MAP_FAILED || view == MAP_FAILED) return kMemoryAllocation;
  const std::lock_guard lock(memory().mutex);
  memory().device[reinterpret_cast<std::uintptr_t>(shown)] = {bytes, static_cast<std::byte*>(view),
                                                              device};
  *pointer = shown;
  return kSuccess;
}

int release(void* pointer) {
  if (pointer == nullptr) return kSuccess;
  const std::lock_guard lock(memory().mutex);
  const auto found = memory().device.find(reinterpret_cast<std::uintptr_t>(pointer));
  if (found == memory().device.end()) return kInvalidValue;
  ::munmap(pointer, found->second.bytes);
  ::munmap(found->second.view, found->second.bytes);
  memory().device.erase(found);
  return kSuccess;
}

std::byte* reach(const void* device) {
  const std::lock_guard lock(memory().mutex);
  const auto found = find_device(device);
  if (found == memory().device.end()) return nullptr;
  return found->second.view + (reinterpret_cast<std::uintptr_t>(device) - found->first);
}

int device_of(const void* pointer) {
  const std::lock_guard lock(memory().mutex);
  const auto found = find_device(pointer);
  return found == memory().device.end() ? -1 : found->second.device;
}

int allocate_pinned(void** pointer, std::size_t bytes) {
  *pointer = std::malloc(bytes);
  if (*pointer == nullptr) return kMemoryAllocation;
  const std::lock_guard lock(memory().mutex);
  memory().pinned[reinterpret_cast<std::uintptr_t>(*pointer)] = bytes;
  return kSuccess;
}

int release_pinned(void* pointer) {
  const std::lock_guard lock(memory().mutex);
  if (memory().pinned.erase(reinterpret_cast<std::uintptr_t>(pointer)) == 0) return kInvalidValue;
  std::free(pointer);
  return kSuccess;
}

bool is_pinned(const void* pointer) {
  const std::lock_guard lock(memory().mutex);
  return find(memory().pinned, pointer, [](std::size_t bytes) { return bytes; }) !=
         memory().pinned.end();
}

}  // namespace cuda_double
