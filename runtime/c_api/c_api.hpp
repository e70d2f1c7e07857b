// The border of the C ABI: errors become status codes and the text of hvd_last_error(), and nothing
// is thrown out. Every hvd_ function is one call of guard(), collective() or with_session().
#pragma once

#include "base/result.hpp"
#include "gpu/dispatch.hpp"
#include "session/shared_buffers.hpp"

#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

#include <hvd/hvd.h>

namespace libhvd {

// The error of a function that was called with a null pointer.
inline Error null_pointer(const char* function) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, std::string(function) + ": a null pointer");
}

// Keeps the error for hvd_last_error() and for the status page.
hvd_status report(const Error& error);
// The status of the last error that any thread of this process was given; HVD_OK: there was none.
hvd_status last_status();
// Whether the text holds the message of an HVD_ERROR_PEER that this process was given.
bool tells_of_a_peer(std::string_view text);
inline hvd_status report(const Result<void>& outcome) {
  return outcome.ok() ? HVD_OK : report(outcome.error());
}

// A collective in a forked child, for which the other ranks would wait in vain: they are told.
hvd_status refuse_in_child(const char* what);

// hvd_init_options as a value; null: all defaults. What is wrong with the process sets is told to
// the other ranks later. Error: what is wrong with the rest, without which it is not known who
// these are.
Result<StartOptions> read_start_options(const hvd_init_options* options);

// At hvd_shutdown: writes the timeline, if one runs, with all ranks that come within a time; else
// this rank's own part. Trouble is told on stderr only: the program has done its work. The caller
// holds Process::calls.
void end_timeline(Session& session);

Error not_initialized(const char* what);
Error in_forked_child(const char* what);

// Whether hvd_options.allocate is for this function.
enum class MayAllocate { no, yes };

// A struct_size that we cannot have meant, or a field that we do not know and that is not zero, is
// a fault that all ranks are told of.
CallOptions read_options(const hvd_options* options, MayAllocate may_allocate = MayAllocate::no);

// While it lives, this thread runs something alone for which all other ranks wait: a collective
// would be waited for in vain, and is an error.
class RootBody {
 public:
  RootBody();
  ~RootBody();
  RootBody(const RootBody&) = delete;
  RootBody& operator=(const RootBody&) = delete;

  static bool running();

 private:
  bool outer_;
};

Error inside_root_body(const char* what);

// While it lives, the status page shows that this thread waits for a collective of the
// engine, unless it shows another one.
class ShownWait {
 public:
  ShownWait(const Engine& engine, std::int64_t handle);
  ~ShownWait();
  ShownWait(const ShownWait&) = delete;
  ShownWait& operator=(const ShownWait&) = delete;

  // How it ended; a wait that is given up by an exception has not completed.
  void set_completed(bool completed) { completed_ = completed; }

 private:
  bool completed_ = false;
  const Session* session_ = nullptr;  // only to compare with; null: not shown
  std::uint64_t start_ns_ = 0;
};

// This call's turn on the status page, if there is one and it shows no other.
class PageTurn {
 public:
  explicit PageTurn(Session& session)
      : session_(session), shown_(session.page() && session.take_page()) {
    session_.begin_turn(shown_);
  }
  ~PageTurn() {
    session_.end_turn();
    if (shown_) session_.give_page();
  }
  PageTurn(const PageTurn&) = delete;
  PageTurn& operator=(const PageTurn&) = delete;

  bool shown() const { return shown_; }

 private:
  Session& session_;
  bool shown_;
};

// Runs a collective, and keeps the status page and the timeline. The caller holds Process::calls.
template <class Body>
Result<void> run_collective(Session& session, const char* what, const CallOptions& options,
                            const Body& body) {
  StatusPage& page = session.page();
  CallTrace& trace = session.call_trace();
  const char* const kind = what + std::strlen("hvd_");
  const std::uint64_t traced = trace.begin();
  const PageTurn turn(session);
  if (!turn.shown() && traced == 0) return body();
  const Communicator& communicator = session.communicator();
  const std::uint64_t start = turn.shown() ? session.clock().now_ns() : 0;
  const std::uint64_t waited = communicator.waited_ns();
  if (turn.shown()) page.begin_collective(kind, options.name, start);
  Result<void> outcome = body();
  if (turn.shown())
    page.end_collective(outcome.ok(), session.clock().now_ns() - start,
                        communicator.waited_ns() - waited);
  trace.end(traced, kind, options.name, communicator.facts(), outcome.ok());
  return outcome;
}

// body: () -> hvd_status.
template <class Body>
hvd_status guard(const char* what, Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return report(fail(HVD_ERROR_SYSTEM, std::string(what) + ": out of memory"));
  } catch (const std::exception& exception) {
    return report(fail(HVD_ERROR_SYSTEM, std::string(what) + ": " + exception.what()));
  }
}

// For what the ranks do together in the program's order. body: (Session&) -> Result<void>; it may
// make many calls on the communicator, no other thread's call comes between them. An exception in
// the middle of them leaves the ranks out of step, so it ends the job's collectives. `what` is the
// function's name, "hvd_allreduce".
template <class Body>
hvd_status in_program_order(const char* what, Body body) noexcept {
  return guard(what, [&] {
    if (process().forked) return refuse_in_child(what);
    if (RootBody::running()) return report(inside_root_body(what));
    const std::lock_guard lock(process().calls);
    Session* const session = process().session.get();  // only changed under `calls`
    if (session == nullptr) return report(not_initialized(what));
    try {
      return report(body(*session));
    } catch (...) {
      Communicator& communicator = session->communicator();
      communicator.abort_job(FailureKind::broken, communicator.rank());
      throw;
    }
  });
}

// The same for a collective, which the status page and the timeline show. body: (Session&, const
// CallOptions&) -> Result<void>.
template <class Body>
hvd_status collective_of_session(const char* what, const CallOptions& options, Body body) noexcept {
  return in_program_order(what, [&](Session& session) {
    return run_collective(session, what, options, [&] { return body(session, options); });
  });
}

// The same for what needs nothing but the communicator. body: see run_where_buffers_lie().
template <class Body>
hvd_status collective(const char* what, const CallOptions& options, Body body) noexcept {
  return collective_of_session(what, options, [&](Session& session, const CallOptions& read) {
    return run_where_buffers_lie(session.communicator(), read, body);
  });
}

// For what one rank does by itself. body: (Session&) -> Result<void>, short: init and shutdown
// wait.
template <class Body>
hvd_status with_session(const char* what, Body body) noexcept {
  return guard(what, [&]() -> hvd_status {
    if (process().forked) return report(in_forked_child(what));
    Result<void> outcome = not_initialized(what);
    {
      const SessionReader session;
      if (session.get() != nullptr) outcome = body(*session.get());
    }
    return report(outcome);
  });
}

}  // namespace libhvd
