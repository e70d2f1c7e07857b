// The border of the C ABI: errors become status codes and the text of hvd_last_error(), and nothing
// is thrown out. Every hvd_ function is one call of guard(), collective() or with_session().
#pragma once

#include "api/process.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string>

#include <hvd/hvd.h>

namespace libhvd {

// Keeps the error for hvd_last_error() and for the status page.
hvd_status report(const Error& error);
inline hvd_status report(const Outcome& outcome) {
  return outcome.ok() ? HVD_OK : report(outcome.error());
}

Error not_initialized(const char* what);
Error in_forked_child(const char* what);

// A struct_size that we cannot have meant, or a field that we do not know and that is not zero, is
// a fault that all ranks are told of.
CallOptions read_options(const hvd_options* options);

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

// Runs a collective and keeps the status page. The caller holds Process::calls.
template <class Body>
Outcome run_collective(Session& session, const char* what, const CallOptions& options,
                       const Body& body) {
  StatusPage& page = session.page();
  if (!page) return body();
  const Communicator& communicator = session.communicator();
  const std::uint64_t start = session.clock().now_ns();
  const std::uint64_t waited = communicator.waited_ns();
  page.begin_collective(what + std::strlen("hvd_"), options.name, start);
  Outcome outcome = body();
  page.end_collective(outcome.ok(), session.clock().now_ns() - start,
                      communicator.waited_ns() - waited);
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

// For what the ranks do together. body: (Session&, const CallOptions&) -> Outcome; it may make many
// calls on the communicator, no other thread's call comes between them. `what` is the function's
// name, "hvd_allreduce".
template <class Body>
hvd_status collective_of_session(const char* what, const hvd_options* options, Body body) noexcept {
  return guard(what, [&] {
    if (process().forked) {
      process().session->communicator().condemn(FailureKind::forked);
      return report(in_forked_child(what));
    }
    if (RootBody::running()) return report(inside_root_body(what));
    const std::lock_guard lock(process().calls);
    Session* const session = process().session.get();  // only changed under `calls`
    if (session == nullptr) return report(not_initialized(what));
    const CallOptions read = read_options(options);
    return report(run_collective(*session, what, read, [&] { return body(*session, read); }));
  });
}

// The same for what needs nothing but the communicator. body: (Communicator&, const CallOptions&).
template <class Body>
hvd_status collective(const char* what, const hvd_options* options, Body body) noexcept {
  return collective_of_session(what, options, [&](Session& session, const CallOptions& read) {
    return body(session.communicator(), read);
  });
}

// For what one rank does by itself. body: (Session&) -> Outcome, short: init and shutdown wait.
template <class Body>
hvd_status with_session(const char* what, Body body) noexcept {
  return guard(what, [&]() -> hvd_status {
    if (process().forked) return report(in_forked_child(what));
    Outcome outcome = not_initialized(what);
    {
      const SessionReader session;
      if (session.get() != nullptr) outcome = body(*session.get());
    }
    return report(outcome);
  });
}

}  // namespace libhvd
