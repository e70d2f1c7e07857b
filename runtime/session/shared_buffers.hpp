// What hvd_alloc has given out and hvd_free takes back, and what is between hvd_register and
// hvd_unregister. A buffer may outlive the session that it
// was made in, and keeps that one's memory.
#pragma once

#include "base/result.hpp"
#include "common/fd.hpp"
#include "common/mapping.hpp"
#include "session/session.hpp"
#include "transport/shared_memory.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
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
  Result<void> free(void* buffer);

  // The program's own memory, which stays what it is where it cannot be shared. Error: it is not
  // whole pages that are there, or is shared already.
  Result<void> add(const std::shared_ptr<SharedMemory>& memory, void* buffer, std::size_t bytes);
  // Error: it was not added, or there is no memory for a copy; then it stays shared.
  Result<void> remove(void* buffer);

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

// The one handle of the process behind the C ABI.

// Never destroyed: threads may still call while the process exits.
struct Process {
  std::mutex calls;  // serialises init, shutdown and collectives
  std::mutex state;  // guards `session` while it is read or replaced; held only shortly
  std::unique_ptr<Session> session;
  std::shared_ptr<void> lasting;  // see Bootstrap::lasting
  std::uint64_t generation = 0;   // how many times hvd_init was called
  std::shared_ptr<StartCounts> starts = std::make_shared<StartCounts>();
  SharedBuffers buffers;  // of hvd_alloc and hvd_register
  std::mutex failure;     // serialises hvd_report_failure
  bool handlers_set = false;
  std::atomic<bool> forked{false};  // we are a child of the process that holds the session
};

Process& process();

// Reads the session. A forked child must not wait for locks that the parent's threads held.
class SessionReader {
 public:
  SessionReader() : lock_(process().state, std::defer_lock) {
    if (!process().forked) lock_.lock();
  }
  Session* get() const { return process().session.get(); }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace libhvd
