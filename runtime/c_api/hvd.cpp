// The C ABI of hvd.h: the job, shared buffers, and messages to and from the launcher, without the
// training's progress (progress.cpp).
#include "hvd/hvd.h"

#include "c_api/c_api.hpp"
#include "common/clock.hpp"
#include "gpu/image.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <pthread.h>
#include <unistd.h>

namespace {

using libhvd::fail;
using libhvd::guard;
using libhvd::not_initialized;
using libhvd::Notice;
using libhvd::process;
using libhvd::report;
using libhvd::Result;
using libhvd::Session;
using libhvd::SessionReader;
using libhvd::StartOptions;
using libhvd::with_session;

// Ends the session, if there is one. The caller holds Process::calls.
void close_session() {
  std::unique_ptr<Session> session;
  const std::lock_guard lock(process().state);
  session = std::move(process().session);
  if (session) process().generations.end(session->process_sets_made());
}

// Puts the session's segment into `segment`.
hvd_status find_segment(const char* what, std::shared_ptr<libhvd::Segment>& segment) {
  return with_session(what, [&](Session& session) -> Result<void> {
    segment = session.communicator().segment();
    return {};
  });
}

// Shuts down a program that exits without hvd_shutdown. Does nothing if another thread is inside a
// collective; the peers then see only the end of the process. An error is put on the status page
// before the peers learn that this rank has left, because their failures must be later than this.
// If results on GPUs were lost, the process ends with code 1.
void at_exit() {
  if (process().forked) return;
  const std::unique_lock lock(process().calls, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const auto lost = process().session != nullptr ? process().session->stop() : std::nullopt;
  if (lost) {
    report(*lost);
    std::fprintf(stderr, "hvd: %s\n", lost->message.c_str());
  }
  const auto status = libhvd::standing_error.status();
  if (status != HVD_OK && process().session != nullptr)
    process().session->page().set_failed_exit(status == HVD_ERROR_PEER, libhvd::monotonic_ns());
  close_session();
  process().lasting.reset();
  if (!lost) return;
  std::fflush(nullptr);
  ::_exit(EXIT_FAILURE);  // the program believes that it has succeeded
}

// The child lacks the threads of what the process keeps (PMIx's among them), so nothing of it may
// be used or closed there, not even at the child's exit.
void in_child_after_fork() {
  process().forked = process().session != nullptr || process().lasting != nullptr;
  if (process().session != nullptr) process().session->close_in_child();
}

void set_handlers() {
  if (process().handlers_set) return;
  process().handlers_set = true;
  std::atexit(at_exit);
  pthread_atfork(nullptr, nullptr, in_child_after_fork);
}

hvd_status init(const char* what, const StartOptions& wanted) {
  if (process().forked) return report(libhvd::in_forked_child(what));
  const std::lock_guard lock(process().calls);
  if (process().session != nullptr) {
    return report(fail(HVD_ERROR_INVALID_ARGUMENT,
                       std::string(what) + ": already initialised; call hvd_shutdown first"));
  }
  const libhvd::ProcessParts parts{process().starts, process().buffers.memory(),
                                   process().generations.next_engine()};
  auto session = Session::open(libhvd::process_environment(), wanted, parts, process().lasting);
  set_handlers();  // also after an error, because `lasting` must be closed
  if (!session.ok()) return report(libhvd::with_context(what, session.error()));
  {
    const std::lock_guard state(process().state);
    process().generations.begin();
    process().session = std::move(*session);
  }
  libhvd::standing_error.clear();
  return HVD_OK;
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

// Runs body: (StatusPage&) -> void.
template <class Body>
hvd_status with_page(const char* what, Body body) noexcept {
  return with_session(what, [&](Session& session) -> Result<void> {
    body(session.page());
    return {};
  });
}

}  // namespace

const char* hvd_status_string(hvd_status status) {
  switch (status) {
    case HVD_OK:
      return "success";
    case HVD_ERROR_INVALID_ARGUMENT:
      return "invalid argument";
    case HVD_ERROR_NOT_INITIALIZED:
      return "called before hvd_init or after hvd_shutdown";
    case HVD_ERROR_MISMATCH:
      return "the ranks made calls that differ";
    case HVD_ERROR_PEER:
      return "a rank died or left";
    case HVD_ERROR_UNSUPPORTED:
      return "not supported by this version or build";
    case HVD_ERROR_ENVIRONMENT:
      return "invalid value of an environment variable";
    case HVD_ERROR_TIMEOUT:
      return "some ranks did not start in time";
    case HVD_ERROR_SYSTEM:
      return "a system call or a library failed";
    case HVD_ERROR_FORKED:
      return "called in a child that was forked after hvd_init";
    case HVD_ERROR_ROOT:
      return "what one rank ran for all failed there";
    default:
      return "unknown status";
  }
}

const char* hvd_version(void) {
  return HVD_VERSION_TEXT;
}

int hvd_has_kernels(const char** about) {
  if (about != nullptr) *about = HVD_ABOUT_KERNELS;
  return libhvd::kernel_image() != nullptr ? 1 : 0;
}

hvd_status hvd_init(void) {
  return guard("hvd_init", [] { return init("hvd_init", StartOptions()); });
}

hvd_status hvd_init_with(const hvd_init_options* options) {
  return guard("hvd_init_with", [=]() -> hvd_status {
    const auto wanted = libhvd::read_start_options(options);
    if (!wanted.ok()) return report(libhvd::with_context("hvd_init_with", wanted.error()));
    return init("hvd_init_with", *wanted);
  });
}

hvd_status hvd_shutdown(void) {
  return guard("hvd_shutdown", []() -> hvd_status {
    if (process().forked) return report(libhvd::in_forked_child("hvd_shutdown"));
    const std::lock_guard lock(process().calls);
    Session* const session = process().session.get();
    if (session == nullptr) return report(not_initialized("hvd_shutdown"));
    libhvd::end_timeline(*session);
    const auto lost = session->stop();
    const hvd_status status = lost ? report(libhvd::with_context("hvd_shutdown", *lost)) : HVD_OK;
    close_session();
    return status;
  });
}

int hvd_initialized(void) {
  return SessionReader().get() != nullptr ? 1 : 0;
}

int hvd_rank(void) {
  return query("hvd_rank", [](const Session& session) { return session.topology().rank; });
}
int hvd_size(void) {
  return query("hvd_size", [](const Session& session) { return session.topology().size; });
}
int hvd_local_rank(void) {
  return query("hvd_local_rank",
               [](const Session& session) { return session.topology().local_rank; });
}
int hvd_local_device(void) {
  return query("hvd_local_device", [](const Session& session) { return session.local_device(); });
}
int hvd_local_size(void) {
  return query("hvd_local_size",
               [](const Session& session) { return session.topology().local_size; });
}
int hvd_cross_rank(void) {
  return query("hvd_cross_rank",
               [](const Session& session) { return session.topology().cross_rank; });
}
int hvd_cross_size(void) {
  return query("hvd_cross_size",
               [](const Session& session) { return session.topology().cross_size; });
}
int hvd_node_rank(void) {
  return query("hvd_node_rank",
               [](const Session& session) { return session.topology().node_rank; });
}
int hvd_node_count(void) {
  return query("hvd_node_count",
               [](const Session& session) { return session.topology().node_count; });
}
int hvd_restart_count(void) {
  return query("hvd_restart_count", [](const Session& session) { return session.restart_count(); });
}
int hvd_is_homogeneous(void) {
  return query("hvd_is_homogeneous",
               [](const Session& session) { return session.topology().is_homogeneous ? 1 : 0; });
}

hvd_status hvd_alloc(size_t bytes, void** memory) {
  std::shared_ptr<libhvd::Segment> segment;
  const hvd_status found = find_segment("hvd_alloc", segment);
  if (found != HVD_OK) return found;
  return guard("hvd_alloc",
               [&]() -> hvd_status {  // without the session's lock, because it may take long
                 if (memory == nullptr)
                   return report(fail(HVD_ERROR_INVALID_ARGUMENT, "hvd_alloc: memory is null"));
                 const auto allocated = process().buffers.allocate(segment, bytes);
                 if (!allocated.ok())
                   return report(libhvd::with_context("hvd_alloc", allocated.error()));
                 *memory = *allocated;
                 return HVD_OK;
               });
}

hvd_status hvd_free(void* memory) {
  return guard("hvd_free", [=]() -> hvd_status {
    if (memory == nullptr || process().forked) return HVD_OK;
    const Result<void> freed = process().buffers.free(memory);
    return freed.ok() ? HVD_OK : report(libhvd::with_context("hvd_free", freed.error()));
  });
}

hvd_status hvd_register(void* memory, size_t bytes) {
  std::shared_ptr<libhvd::Segment> segment;
  const hvd_status found = find_segment("hvd_register", segment);
  if (found != HVD_OK) return found;
  return guard("hvd_register", [&]() -> hvd_status {
    const Result<void> added = process().buffers.add(segment, memory, bytes);
    return added.ok() ? HVD_OK : report(libhvd::with_context("hvd_register", added.error()));
  });
}

hvd_status hvd_unregister(void* memory) {
  return guard("hvd_unregister", [=]() -> hvd_status {
    if (memory == nullptr || process().forked) return HVD_OK;
    const Result<void> removed = process().buffers.remove(memory);
    return removed.ok() ? HVD_OK : report(libhvd::with_context("hvd_unregister", removed.error()));
  });
}

hvd_status hvd_report_failure(const char* text) {
  constexpr const char* what = "hvd_report_failure";
  return guard(what, [=]() -> hvd_status {
    if (process().forked) return report(libhvd::in_forked_child(what));
    if (text == nullptr || *text == '\0')
      return report(fail(HVD_ERROR_INVALID_ARGUMENT, std::string(what) + ": no text"));
    // Maps the page a second time: this works without a session, and leaves the session's mapping
    // as it is.
    auto page = libhvd::StatusPage::attach_for_failure(libhvd::process_environment());
    if (!page.ok()) return report(libhvd::with_context(what, page.error()));
    const std::lock_guard lock(process().failure);
    page->set_failure(text, libhvd::quotes_peer_error(text), libhvd::monotonic_ns());
    return HVD_OK;
  });
}

hvd_status hvd_notice(uint32_t* bits, uint64_t* stop_at_step) {
  return with_page("hvd_notice", [=](auto& page) {
    const Notice notice = page.notice();
    if (bits != nullptr) *bits = notice.bits;
    if (stop_at_step != nullptr) *stop_at_step = notice.stop_at_step;
  });
}

hvd_status hvd_time_left(double* seconds) {
  return with_session("hvd_time_left", [=](Session& session) -> Result<void> {
    if (seconds != nullptr) *seconds = session.seconds_left();
    return {};
  });
}
