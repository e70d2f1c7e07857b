// What hvd_alloc has given out and hvd_free takes back. A buffer may outlive the session that it
// was made in, and keeps that one's memory.
#pragma once

#include "base/mapping.hpp"
#include "base/result.hpp"
#include "transport/shared_memory.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

namespace libhvd {

// Any thread.
class SharedBuffers {
 public:
  // Error: there is no memory at all.
  Result<void*> allocate(const std::shared_ptr<SharedMemory>& memory, std::size_t bytes);
  // Error: it was not allocated here.
  Outcome free(void* buffer);

 private:
  struct Buffer {
    std::shared_ptr<SharedMemory> shared;  // null: ordinary memory, in `ordinary`
    Mapping ordinary;
  };

  std::mutex mutex_;
  std::map<void*, Buffer> buffers_;
  bool told_ = false;  // that there is no room
};

}  // namespace libhvd
