// The last error that calls of the C ABI returned in this process, for as long as it may be the
// reason why the process ends. The status page shows it. It is forgotten once the program has
// gone on after it:
//   - a call of the same function has succeeded;
//   - after an error of a collective (allreduce, barrier, …) or of a query, a collective that moves
//   data and began
//     later has succeeded. (A barrier may be a part of the program's way out.)
//   - hvd_init has succeeded.
// hvd_shutdown does not count, because programs also call it to clean up after one.
//
// Any thread. In a forked child it does nothing. Nothing fails.
#pragma once

#include "base/error.hpp"

#include <atomic>
#include <mutex>
#include <string_view>
#include <type_traits>

namespace libhvd {

class StandingError {
 public:
  // Notes an error, and writes it on the status page.
  void set(const Error& error);
  // Notes that a call of this function has ended. `function` must live as long as the process.
  void end_call(const char* function, hvd_status status) {
    if (status != HVD_OK || stands_.load(std::memory_order_relaxed)) note_end(function, status);
  }
  // Notes that a collective begins.
  void begin_collective() {
    if (stands_.load(std::memory_order_relaxed)) began_later_.store(true);
  }
  // Notes that a collective has ended, blocking or by a wait. `function`: as above.
  void end_collective(const char* function, hvd_status status) {
    if (status == HVD_OK && stands_.load(std::memory_order_relaxed)) note_success(function);
  }
  // Forgets the error.
  void clear();
  // Returns its status; HVD_OK if there is none.
  hvd_status status() const { return status_.load(); }

 private:
  void note_end(std::string_view function, hvd_status status);
  void note_success(std::string_view function);
  void clear_locked();

  std::atomic<bool> stands_{false};
  std::atomic<bool> began_later_{false};  // a collective began after the error
  std::atomic<hvd_status> status_{HVD_OK};
  std::mutex mutex_;           // of what follows, and of the status page's error
  std::string_view function_;  // that returned the error; "" until it returns, and of queries
};

// The one object of this process. It needs no constructor and no destructor at run time, so a small
// collective does not pay for finding it.
inline constinit StandingError standing_error;
static_assert(std::is_trivially_destructible_v<StandingError>);

}  // namespace libhvd
