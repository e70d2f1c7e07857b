// Which collective the status page shows, and how long collectives take. The page has room for one:
// of those in progress, the first that asks for it. Without a page this does nothing.
//
// A quick call does not write the page, because that would take a good part of its time. It is
// shown when it waits for other ranks. Of the quick calls every 61st is shown from its beginning.
// If it does not wait, its time is that of 61. The ranks make the same calls, so the same calls are
// a little slower on all of them.
//
// The caller of the functions for calls in the program's order holds Process::calls. Any thread may
// call the rest. They do not fail.
#pragma once

#include "common/tick_clock.hpp"
#include "session/status_page.hpp"

#include <atomic>
#include <cstdint>
#include <string_view>

namespace libhvd {

// Whether a call moves only a few KB, so that it is over at once unless it waits.
enum class Quick { no, yes };

class ShownCollectives {
 public:
  // `page` must live as long as this object.
  explicit ShownCollectives(StatusPage& page) : page_(page) {}

  // Begins a call in the program's order. `kind`: "allreduce"; `name` may be null; both must live
  // until the call ends. `waited_ns`: how long all calls so far have waited for other ranks.
  void begin_call(const char* kind, const char* name, Quick quick, std::uint64_t waited_ns) {
    if (!page_) return;
    call_ = {kind, name, waited_ns};
    if (quick == Quick::yes && ++quick_calls_ % kQuickCalls != 0) return;
    show_call();
    if (quick == Quick::yes) call_.weight = kQuickCalls;
  }
  // Shows the call in progress, if there is one. Call it when a call waits for other ranks, on the
  // call's thread.
  void show_call() {
    if (call_.kind != nullptr && !call_.shown) begin_showing_call();
  }
  // Ends the call in progress. `waited_ns`: as at its beginning.
  void end_call(bool completed, std::uint64_t waited_ns) {
    if (call_.shown) end_showing_call(completed, waited_ns - call_.waited_ns);
    call_.kind = nullptr;
  }
  bool shows_call() const { return call_.shown; }

  // Shows that this thread waits for a collective of an engine. Returns false if the page shows
  // another one; otherwise end_wait() must follow. `name` may be null.
  bool begin_wait(std::string_view kind, const char* name) {
    if (!page_ || !take_page()) return false;
    begin_showing(kind, name);
    return true;
  }
  void end_wait(bool completed);

 private:
  // A prime number, because programs repeat the same few calls.
  static constexpr std::uint64_t kQuickCalls = 61;

  struct ShownCall {
    const char* kind;          // null: no call is in progress
    const char* name;          // may be null
    std::uint64_t waited_ns;   // see begin_call()
    std::uint64_t weight = 1;  // of how many calls this one's time is, if it does not wait
    bool shown = false;
  };

  // Reserves the page for one collective. Returns false if another one has it.
  bool take_page() { return !page_taken_.exchange(true, std::memory_order_acquire); }
  void give_page() { page_taken_.store(false, std::memory_order_release); }
  void begin_showing(std::string_view kind, const char* name);
  void begin_showing_call();
  void end_showing_call(bool completed, std::uint64_t waited_ns);

  StatusPage& page_;
  ShownCall call_{};
  std::uint64_t quick_calls_ = 0;
  std::atomic<bool> page_taken_{false};
  // Of the collective that has the page.
  TickClock clock_;
  std::uint64_t start_ns_ = 0;
};

}  // namespace libhvd
