// The buffers that the ranks of a host share at the program's request: memory that hvd_alloc
// returned and hvd_free has not taken back, and memory between hvd_register and hvd_unregister. A
// buffer may outlive the session in which it was made, so it owns that session's shared memory.
#pragma once

#include "base/error.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"
#include "transport/shared_memory.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace libhvd {

// Any thread.
class SharedBuffers {
 public:
  // Allocates `bytes` bytes in `memory`, or ordinary memory if there is no room: then one line on
  // stderr says why, once. Error: 0 bytes; there is no ordinary memory either.
  Result<void*> allocate(const std::shared_ptr<SharedMemory>& memory, std::size_t bytes);
  // Error: allocate() did not return the buffer.
  Result<void> free(void* buffer);

  // Shares memory of the program, which stays ordinary if it cannot be shared. Error: it is not
  // whole pages that are mapped, or is shared already.
  Result<void> add(const std::shared_ptr<SharedMemory>& memory, void* buffer, std::size_t bytes);
  // Makes the memory ordinary again. Error: it was not added, or there is no memory for a copy;
  // then it stays shared.
  Result<void> remove(void* buffer);

 private:
  struct Buffer {
    std::shared_ptr<SharedMemory> shared;  // null: the memory is ordinary
    Mapping ordinary;                      // owns ordinary memory of allocate()
    bool added = false;                    // by add(): the memory is the program's
  };
  using Buffers = std::map<void*, Buffer>;

  // The caller of these two holds the mutex.
  void warn_once(const Error& error);
  Result<Buffers::iterator> find(void* buffer, bool added);

  std::mutex mutex_;
  Buffers buffers_;
  bool warned_ = false;
};

}  // namespace libhvd
