// The C ABI of hvd.h: the job, the collectives, and what goes to and from the launcher.
#include "hvd/hvd.h"

#include "api/border.hpp"

#include <cstdlib>
#include <memory>
#include <mutex>

#include <pthread.h>

namespace {

using libhvd::CallOptions;
using libhvd::collective;
using libhvd::guard;
using libhvd::not_initialized;
using libhvd::Notice;
using libhvd::Outcome;
using libhvd::process;
using libhvd::report;
using libhvd::Session;
using libhvd::SessionReader;

// Ends the session, if there is one. The caller holds `calls`.
bool close_session() {
  std::unique_ptr<Session> session;
  {
    const std::lock_guard lock(process().state);
    session = std::move(process().session);
  }
  return session != nullptr;
}

// For a program that exits without hvd_shutdown. When another thread is inside a collective it
// cannot be had: then the end of the process is what the peers see.
void at_exit() {
  if (process().forked) return;
  const std::unique_lock lock(process().calls, std::try_to_lock);
  if (!lock.owns_lock()) return;
  close_session();
  process().lasting.reset();
}

void in_child_after_fork() {
  process().forked = process().session != nullptr;
  if (process().forked) process().session->close_in_child();
}

void set_handlers() {
  if (process().handlers_set) return;
  process().handlers_set = true;
  std::atexit(at_exit);
  pthread_atfork(nullptr, nullptr, in_child_after_fork);
}

// body: (const Session&) -> int, at least 0.
template <class Body>
int query(const char* what, Body body) {
  const auto read = [&]() -> int {
    const SessionReader session;
    return session.get() == nullptr ? -1 : body(*session.get());
  };
  const int number = read();
  return number >= 0 ? number : -report(not_initialized(what));
}

template <class Body>
hvd_status with_page(const char* what, Body body) noexcept {
  return libhvd::with_session(what, [&](Session& session) -> Outcome {
    body(session.page());
    return libhvd::Done{};
  });
}

}  // namespace

const char* hvd_version(void) {
  return HVD_VERSION_TEXT;
}

hvd_status hvd_init(void) {
  return guard("hvd_init", []() -> hvd_status {
    if (process().forked) return report(libhvd::in_forked_child("hvd_init"));
    const std::lock_guard lock(process().calls);
    if (process().session != nullptr) {
      return report(libhvd::fail(HVD_ERROR_INVALID_ARGUMENT,
                                 "hvd_init: already initialised; call hvd_shutdown first"));
    }
    auto session =
        Session::open(libhvd::process_environment(), process().generation++, process().lasting);
    set_handlers();  // also when it failed: what lasts must be closed
    if (!session.ok()) return report(libhvd::with_context("hvd_init", session.error()));
    {
      const std::lock_guard state(process().state);
      process().session = std::move(*session);
    }
    return HVD_OK;
  });
}

hvd_status hvd_shutdown(void) {
  return guard("hvd_shutdown", []() -> hvd_status {
    if (process().forked) return report(libhvd::in_forked_child("hvd_shutdown"));
    const std::lock_guard lock(process().calls);
    return close_session() ? HVD_OK : report(not_initialized("hvd_shutdown"));
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
  std::shared_ptr<libhvd::SharedMemory> shared;
  const hvd_status found = libhvd::with_session("hvd_alloc", [&](Session& session) -> Outcome {
    shared = session.communicator().memory();
    return libhvd::Done{};
  });
  if (found != HVD_OK) return found;
  return guard(
      "hvd_alloc", [&]() -> hvd_status {  // not under the session's lock, as this may take long
        if (memory == nullptr)
          return report(libhvd::fail(HVD_ERROR_INVALID_ARGUMENT, "hvd_alloc: memory is null"));
        const auto allocated = process().buffers.allocate(shared, bytes);
        if (!allocated.ok()) return report(libhvd::with_context("hvd_alloc", allocated.error()));
        *memory = *allocated;
        return HVD_OK;
      });
}

hvd_status hvd_free(void* memory) {
  return guard("hvd_free", [=]() -> hvd_status {
    if (memory == nullptr || process().forked) return HVD_OK;
    const Outcome freed = process().buffers.free(memory);
    return freed.ok() ? HVD_OK : report(libhvd::with_context("hvd_free", freed.error()));
  });
}

hvd_status hvd_allreduce(const void* input, void* output, size_t count, hvd_type type, hvd_op op,
                         const hvd_options* options) {
  return collective("hvd_allreduce", options, [=](auto& communicator, const CallOptions& read) {
    return communicator.allreduce(input, output, count, type, op, read);
  });
}

hvd_status hvd_broadcast(void* buffer, size_t count, hvd_type type, int root,
                         const hvd_options* options) {
  return collective("hvd_broadcast", options, [=](auto& communicator, const CallOptions& read) {
    return communicator.broadcast(buffer, count, type, root, read);
  });
}

hvd_status hvd_allgather(const void* input, size_t rows, size_t row_size, hvd_type type,
                         void* output, size_t output_rows, size_t* rows_by_rank,
                         const hvd_options* options) {
  return collective("hvd_allgather", options, [=](auto& communicator, const CallOptions& read) {
    return communicator.allgather(input, rows, row_size, type, output, output_rows, rows_by_rank,
                                  read);
  });
}

hvd_status hvd_reducescatter(const void* input, size_t rows, size_t row_size, hvd_type type,
                             hvd_op op, void* output, const hvd_options* options) {
  return collective("hvd_reducescatter", options, [=](auto& communicator, const CallOptions& read) {
    return communicator.reducescatter(input, rows, row_size, type, op, output, read);
  });
}

hvd_status hvd_alltoall(const void* input, const size_t* splits, size_t rows, size_t row_size,
                        hvd_type type, void* output, size_t output_rows, size_t* received,
                        const hvd_options* options) {
  return collective("hvd_alltoall", options, [=](auto& communicator, const CallOptions& read) {
    return communicator.alltoall(input, splits, rows, row_size, type, output, output_rows, received,
                                 read);
  });
}

hvd_status hvd_barrier(const hvd_options* options) {
  return collective("hvd_barrier", options, [](auto& communicator, const CallOptions& read) {
    return communicator.barrier(read);
  });
}

hvd_status hvd_set_step(uint64_t step) {
  return with_page("hvd_set_step", [=](auto& page) { page.set_step(step); });
}
hvd_status hvd_set_epoch(uint64_t epoch) {
  return with_page("hvd_set_epoch", [=](auto& page) { page.set_epoch(epoch); });
}
hvd_status hvd_add_samples(uint64_t samples) {
  return with_page("hvd_add_samples", [=](auto& page) { page.add_samples(samples); });
}

hvd_status hvd_notice(uint32_t* bits, uint64_t* stop_at_step) {
  return with_page("hvd_notice", [=](auto& page) {
    const Notice notice = page.notice();
    if (bits != nullptr) *bits = notice.bits;
    if (stop_at_step != nullptr) *stop_at_step = notice.stop_at_step;
  });
}

hvd_status hvd_time_left(double* seconds) {
  return libhvd::with_session("hvd_time_left", [=](Session& session) -> Outcome {
    if (seconds != nullptr) *seconds = session.seconds_left();
    return libhvd::Done{};
  });
}
