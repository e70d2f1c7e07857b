// The C ABI of hvd.h: the job, shared buffers, and messages to and from the launcher, without the
// training's progress (progress.cpp).
#include "hvd/hvd.h"

#include "c_api/c_api.hpp"
#include "c_api/session_life.hpp"
#include "common/clock.hpp"
#include "gpu/image.hpp"

#include <memory>
#include <mutex>
#include <string>

namespace {

using libhvd::fail;
using libhvd::guard;
using libhvd::not_initialized;
using libhvd::Notice;
using libhvd::process;
using libhvd::query;
using libhvd::report;
using libhvd::Result;
using libhvd::Session;
using libhvd::SessionReader;
using libhvd::with_session;

// Puts the session's segment into `segment`.
hvd_status find_segment(const char* what, std::shared_ptr<libhvd::Segment>& segment) {
  return with_session(what, [&](Session& session) -> Result<void> {
    segment = session.communicator().segment();
    return {};
  });
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
    case HVD_ERROR_REMOVED:
      return "the job does not want this process any more";
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
  return guard("hvd_init", [] { return libhvd::join_job("hvd_init", {}); });
}

hvd_status hvd_init_with(const hvd_init_options* options) {
  return guard("hvd_init_with", [=]() -> hvd_status {
    const auto wanted = libhvd::read_start_options(options);
    if (!wanted.ok()) return report(libhvd::with_context("hvd_init_with", wanted.error()));
    return libhvd::join_job("hvd_init_with", *wanted);
  });
}

hvd_status hvd_shutdown(void) {
  return guard("hvd_shutdown", [] { return libhvd::leave_job("hvd_shutdown"); });
}

int hvd_initialized(void) {
  return SessionReader().get() != nullptr ? 1 : 0;
}

int hvd_rank(void) {
  return query("hvd_rank", [](const Session& session) { return session.numbers().rank; });
}
int hvd_size(void) {
  return query("hvd_size", [](const Session& session) { return session.numbers().size; });
}
int hvd_local_rank(void) {
  return query("hvd_local_rank",
               [](const Session& session) { return session.numbers().local_rank; });
}
int hvd_local_device(void) {
  return query("hvd_local_device", [](const Session& session) { return session.local_device(); });
}
int hvd_local_size(void) {
  return query("hvd_local_size",
               [](const Session& session) { return session.numbers().local_size; });
}
int hvd_cross_rank(void) {
  return query("hvd_cross_rank",
               [](const Session& session) { return session.numbers().cross_rank; });
}
int hvd_cross_size(void) {
  return query("hvd_cross_size",
               [](const Session& session) { return session.numbers().cross_size; });
}
int hvd_node_rank(void) {
  return query("hvd_node_rank", [](const Session& session) { return session.numbers().node_rank; });
}
int hvd_node_count(void) {
  return query("hvd_node_count",
               [](const Session& session) { return session.numbers().node_count; });
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
    process().reported_failure = true;
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
