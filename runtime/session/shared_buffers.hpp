// The buffers that the ranks of a host share at the program's request: memory that hvd_alloc
// returned and hvd_free has not taken back, and memory between hvd_register and hvd_unregister.
// They outlive the session in which they were made. The process has one object.
#pragma once

#include "base/error.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"
#include "transport/process_memory.hpp"
#include "transport/segment.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace libhvd {

// Any thread.
class SharedBuffers {
 public:
  const std::shared_ptr<ProcessMemory>& memory() const { return memory_; }

  // Allocates `bytes` bytes of shared memory, or ordinary memory if there is no room: then one line
  // on stderr says why, once. `segment`: of this session. Error: 0 bytes; there is no ordinary
  // memory either.
  Result<void*> allocate(const std::shared_ptr<Segment>& segment, std::size_t bytes);
  // Error: allocate() did not return the buffer.
  Result<void> free(void* buffer);

  // Shares memory of the program, which stays ordinary if it cannot be shared. Error: it is not
  // whole pages that are mapped, or is shared already.
  Result<void> add(const std::shared_ptr<Segment>& segment, void* buffer, std::size_t bytes);
  // Makes the memory ordinary again. Error: it was not added, or there is no memory for a copy;
  // then it stays shared.
  Result<void> remove(void* buffer);

 private:
  struct Buffer {
    Mapping ordinary = {};  // owns ordinary memory of allocate()
    bool added = false;     // by add(): the memory is the program's
  };
  using Buffers = std::map<void*, Buffer>;

  // The caller of these two holds the mutex.
  void warn_once(const Error& error);
  Result<Buffers::iterator> find(void* buffer, bool added);

  const std::shared_ptr<ProcessMemory> memory_ = std::make_shared<ProcessMemory>();
  std::mutex mutex_;
  Buffers buffers_;
  bool warned_ = false;
};

}  // namespace libhvd
