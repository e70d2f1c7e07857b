// The one handle of the process behind the C ABI.
#pragma once

#include "api/session.hpp"
#include "api/shared_buffers.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace libhvd {

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
