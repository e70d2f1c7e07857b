// The border of the C ABI. Here an Error becomes a status code and the text of hvd_last_error(),
// and no exception gets out. Every hvd_ function that can fail is one call of a template below:
//   guard()                 works without a session
//   take_part()             the same for a call that other ranks may wait for
//   with_session()          uses the session on this rank alone, from any thread
//   in_program_order()      all ranks make the call, in the same order
//   collective_of_session() the same for a collective, which status page and timeline show
//   collective()            the same for one that needs only the communicator
// Calls in the background go through collectives.cpp. The process's state is in process.hpp.
#pragma once

#include "base/error.hpp"
#include "c_api/process.hpp"
#include "c_api/standing_error.hpp"
#include "gpu/dispatch.hpp"

#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>

#include <hvd/hvd.h>

namespace libhvd {

// Returns the error of a function that was called with a null pointer.
inline Error null_pointer(const char* function) {
  return fail(HVD_ERROR_INVALID_ARGUMENT, std::string(function) + ": a null pointer");
}

// Keeps the error for hvd_last_error() and as the standing error, and returns its status.
hvd_status report(const Error& error);
inline hvd_status report(const Result<void>& outcome) {
  return outcome.ok() ? HVD_OK : report(outcome.error());
}
// Returns whether the text contains the message of an HVD_ERROR_PEER of this process.
bool quotes_peer_error(std::string_view text);

// Ends the collectives of the job, if there is a session, because this rank cannot take part in a
// call that the others may have begun.
void end_collectives(FailureKind kind);

// Refuses a collective in a forked child. The other ranks would wait for it in vain, so it ends
// their collectives, too.
hvd_status refuse_in_child(const char* what);

// Returns hvd_init_options as a value; null: all defaults. Error: the list of ranks is not valid,
// so it is not known which ranks start together. An error in the process sets becomes
// StartOptions::fault.
Result<StartOptions> read_start_options(const hvd_init_options* options);

// Ends the timeline at hvd_shutdown, if one runs. Writes it with all ranks if these come within 30
// seconds, otherwise only this rank's own part. Errors go to stderr only, because the program has
// done its work. The caller holds Process::calls.
void end_timeline(Session& session);

Error not_initialized(const char* what);
Error in_forked_child(const char* what);

// Whether a function supports hvd_options.allocate.
enum class MayAllocate { no, yes };

// Returns the options of a call; null: all defaults. A struct_size out of range, or an unknown
// field that is not zero, becomes CallOptions::fault, which is an error on all ranks. So does a
// lack of memory.
CallOptions read_options(const hvd_options* options,
                         MayAllocate may_allocate = MayAllocate::no) noexcept;

// While it lives, this thread runs the body of hvd_on_root, for which all other ranks wait. A
// collective of this thread would never end, so it is an error.
class RootBody {
 public:
  RootBody();
  ~RootBody();
  RootBody(const RootBody&) = delete;
  RootBody& operator=(const RootBody&) = delete;

  // Returns whether this thread runs such a body.
  static bool running();

 private:
  bool outer_;  // an outer one lived already
};

Error inside_root_body(const char* what);

// While it lives, the status page shows that this thread waits for a collective of the engine,
// unless the page shows another one.
class ShownWait {
 public:
  ShownWait(const Engine& engine, std::int64_t handle);
  ~ShownWait();
  ShownWait(const ShownWait&) = delete;
  ShownWait& operator=(const ShownWait&) = delete;

  // Sets whether the collective succeeded. Without this call (an exception) it did not.
  void set_completed(bool completed) { completed_ = completed; }

 private:
  bool completed_ = false;
  const Session* session_ = nullptr;  // only to compare with; null: not shown
};

// A call in the program's order, as the status page shows it.
class CallInOrder {
 public:
  CallInOrder(Session& session, const char* kind, const char* name, Quick quick)
      : session_(session) {
    session_.shown().begin_call(kind, name, quick, session_.communicator().waited_ns());
  }
  ~CallInOrder() {
    session_.end_turn();
    session_.shown().end_call(completed_, session_.communicator().waited_ns());
  }
  CallInOrder(const CallInOrder&) = delete;
  CallInOrder& operator=(const CallInOrder&) = delete;

  // Sets whether the call succeeded. Without this call (an exception) it did not.
  void set_completed(bool completed) { completed_ = completed; }

 private:
  Session& session_;
  bool completed_ = false;
};

// Runs a collective, and shows it on the status page and in the timeline. `what` is the function's
// name; `quick`: see shown_collectives.hpp. The caller holds Process::calls.
template <class Body>
Result<void> run_collective(Session& session, const char* what, const CallOptions& options,
                            const Body& body, Quick quick) {
  CallTrace& trace = session.call_trace();
  const char* const kind = what + std::strlen("hvd_");
  const std::uint64_t traced = trace.begin();
  CallInOrder call(session, kind, options.name, quick);
  Result<void> outcome = body();
  call.set_completed(outcome.ok());
  if (traced != 0)
    trace.end(traced, kind, options.name, session.communicator().facts(), outcome.ok());
  return outcome;
}

// Reports the exception that is being handled as an error of the function, HVD_ERROR_SYSTEM.
hvd_status report_exception(const char* what) noexcept;

// Runs body: () -> hvd_status, and returns its status. An exception becomes HVD_ERROR_SYSTEM.
// `what` is the function's name, a literal.
template <class Body>
hvd_status guard(const char* what, const Body& body) noexcept {
  hvd_status status;
  try {
    status = body();
  } catch (...) {
    status = report_exception(what);
  }
  standing_error.end_call(what, status);
  return status;
}

// Does the same for a call in which this rank takes part with others. An exception leaves the ranks
// out of step, or the others waiting, so it ends the job's collectives.
template <class Body>
hvd_status take_part(const char* what, const Body& body) noexcept {
  hvd_status status;
  try {
    status = body();
  } catch (...) {
    end_collectives(FailureKind::broken);
    status = report_exception(what);
  }
  standing_error.end_call(what, status);
  return status;
}

// Runs a body that all ranks run, in the program's order. body: (Session&) -> Result<void>. It may
// make several calls on the communicator; no other thread's call comes between them. `what` is the
// function's name, "hvd_allreduce".
template <class Body>
hvd_status in_program_order(const char* what, const Body& body) noexcept {
  return take_part(what, [&] {
    Process& own = process();
    if (own.forked) return refuse_in_child(what);
    if (RootBody::running()) return report(inside_root_body(what));
    const std::lock_guard lock(own.calls);
    Session* const session = own.session.get();  // only changed under `calls`
    if (session == nullptr) return report(not_initialized(what));
    return report(body(*session));
  });
}

// Does the same for a collective, which the status page and the timeline show. body: (Session&,
// const CallOptions&) -> Result<void>.
template <class Body>
hvd_status collective_of_session(const char* what, const CallOptions& options, const Body& body,
                                 Quick quick = Quick::no) noexcept {
  return in_program_order(what, [&](Session& session) {
    return run_collective(
        session, what, options, [&] { return body(session, options); }, quick);
  });
}

// Does the same for a collective that needs only the communicator. body: see
// run_where_buffers_lie().
template <class Body>
hvd_status collective(const char* what, const CallOptions& options, const Body& body,
                      Quick quick = Quick::no) noexcept {
  return collective_of_session(
      what, options,
      [&](Session& session, const CallOptions& read) {
        return run_where_buffers_lie(session.communicator(), read, body);
      },
      quick);
}

// Returns the result of body: (const Session&) -> int, at least 0; -HVD_ERROR_NOT_INITIALIZED if
// there is no session.
template <class Body>
int query(const char* what, Body body) {
  const auto read = [&]() -> int {
    const SessionReader session;
    return session.get() == nullptr ? -1 : body(*session.get());
  };
  const int number = read();
  return number >= 0 ? number : -report(not_initialized(what));
}

// Runs a body that concerns this rank alone. body: (Session&) -> Result<void>. It must be short,
// because hvd_init and hvd_shutdown wait for it.
template <class Body>
hvd_status with_session(const char* what, const Body& body) noexcept {
  return guard(what, [&]() -> hvd_status {
    if (process().forked) return report(in_forked_child(what));
    const auto read_session = [&]() -> Result<void> {
      const SessionReader session;
      if (session.get() == nullptr) return not_initialized(what);
      return body(*session.get());
    };
    return report(read_session());  // without the lock, which report() takes
  });
}

}  // namespace libhvd
