// What hvd_alloc has given out and hvd_free takes back, and what is between hvd_register and
// hvd_unregister. A buffer may outlive the session that it
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

  // The program's own memory, which stays what it is where it cannot be shared. Error: it is not
  // whole pages that are there, or is shared already.
  Outcome add(const std::shared_ptr<SharedMemory>& memory, void* buffer, std::size_t bytes);
  // Error: it was not added, or there is no memory for a copy; then it stays shared.
  Outcome remove(void* buffer);

 private:
  struct Buffer {
    std::shared_ptr<SharedMemory> shared;  // null: ordinary memory, in `ordinary` if it is ours
    Mapping ordinary;
    bool added = false;  // it is the program's own
  };
  using Buffers = std::map<void*, Buffer>;

  void tell_why_not(const Error& error);
  Result<Buffers::iterator> find(void* buffer, bool added);

  std::mutex mutex_;
  Buffers buffers_;
  bool told_ = false;  // that there is no room
};

}  // namespace libhvd
