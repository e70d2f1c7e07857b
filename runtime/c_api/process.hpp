// The state of the C ABI in this process: the session between hvd_init and hvd_shutdown, the
// objects that outlive a session, and the locks for them. Any thread.
#pragma once

#include "session/session.hpp"
#include "session/session_handles.hpp"
#include "session/shared_buffers.hpp"
#include "session/status_page.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

namespace libhvd {

// Never destroyed, because threads may still call while the process exits.
struct Process {
  std::mutex calls;  // serialises init, shutdown and collectives
  std::mutex state;  // guards the next two while they are read or replaced; held only shortly
  std::unique_ptr<Session> session;
  SessionHandles session_handles;
  std::shared_ptr<void> lasting;  // see Bootstrap::lasting
  // In a job that continues when ranks are lost: the link to the agent, from the first hvd_init on.
  std::unique_ptr<MemberLink> link;
  std::optional<int> first_local_rank;    // with it: that of the first generation
  bool has_joined = false;                // with it: this process was in a generation
  std::atomic<std::uint64_t> commits{0};  // of the program's state
  std::shared_ptr<StartCounts> starts = std::make_shared<StartCounts>();
  std::optional<StatusPage> page_without_session;  // for progress; guarded by `state`
  SharedBuffers buffers;                           // of hvd_alloc and hvd_register
  std::mutex failure;                              // serialises hvd_report_failure
  // Since hvd_init. The process is about to end with an error, so it does not leave in good order.
  std::atomic<bool> reported_failure{false};
  bool handlers_set = false;
  std::atomic<int> root_bodies{0};  // that run now; see RootBody
  // This is a child that was forked while its parent had a session, a link or something lasting.
  std::atomic<bool> forked{false};
};

// Returns the one object of this process.
Process& process();

// Returns the generation of this process's last session; 0 if there has been none. What belongs to
// a session compares it to find out that there is another one. Any thread; 0 in a forked child.
std::uint64_t last_generation();

// Access to the session, which is not destroyed while this object lives. In a forked child it takes
// no lock, because threads of the parent may have held the lock.
class SessionReader {
 public:
  SessionReader() : lock_(process().state, std::defer_lock) {
    if (!process().forked) lock_.lock();
  }
  // Returns null before hvd_init and after hvd_shutdown.
  Session* get() const { return process().session.get(); }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace libhvd
