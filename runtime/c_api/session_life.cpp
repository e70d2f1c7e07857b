#include "c_api/session_life.hpp"

#include "c_api/c_api.hpp"
#include "common/clock.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include <pthread.h>
#include <unistd.h>

namespace libhvd {
namespace {

// Ends the session, if there is one. The caller holds Process::calls.
void close_session() {
  std::unique_ptr<Session> session;
  const std::lock_guard lock(process().state);
  session = std::move(process().session);
  if (session) process().session_handles.end(session->process_sets_made());
}

// Says to the launcher that this member has left, if the job continues when ranks are lost. A
// member that ends with an error does not: it is lost, and has not finished.
void say_goodbye() {
  if (process().link == nullptr || process().reported_failure) return;
  static_cast<void>(process().link->leave());  // without an agent the job has ended
}

// Shuts down a program that exits without hvd_shutdown. Does nothing if another thread is inside a
// collective; the peers then see only the end of the process. An error is put on the status page
// before the peers learn that this rank has left, because their failures must be later than this.
// If results on GPUs were lost, the process ends with code 1. `code`: the program's. A rank that
// exits with another one than 0 has not left its job in order: it is lost.
void at_exit(int code, void*) {
  if (process().forked) return;
  const std::unique_lock lock(process().calls, std::try_to_lock);
  if (!lock.owns_lock()) return;
  const auto lost = process().session != nullptr ? process().session->stop() : std::nullopt;
  if (lost) {
    report(*lost);
    std::fprintf(stderr, "hvd: %s\n", lost->message.c_str());
  }
  const auto status = standing_error.status();
  if (status != HVD_OK && process().session != nullptr)
    process().session->page().set_failed_exit(status == HVD_ERROR_PEER, monotonic_ns());
  close_session();
  if (code == 0 && status == HVD_OK && !lost) say_goodbye();
  process().link.reset();
  process().lasting.reset();
  if (!lost) return;
  std::fflush(nullptr);
  ::_exit(EXIT_FAILURE);  // the program believes that it has succeeded
}

// The child lacks the threads of what the process keeps (PMIx's and the link's among them), so
// nothing of it may be used or destroyed there, not even at the child's exit.
void in_child_after_fork() {
  Process& own = process();
  own.forked = own.session != nullptr || own.lasting != nullptr || own.link != nullptr;
  if (own.session != nullptr) own.session->close_in_child();
  if (own.link != nullptr) own.link->close_in_child();
}

void set_handlers() {
  if (process().handlers_set) return;
  process().handlers_set = true;
  ::on_exit(at_exit, nullptr);
  pthread_atfork(nullptr, nullptr, in_child_after_fork);
}

// Opens the link to the agent, if the job has one and there is none yet.
Result<void> open_link() {
  const Environment environment = process_environment();
  if (process().link != nullptr || !has_agent(environment)) return {};
  HVD_TRY(process().link, MemberLink::open(environment));
  return {};
}

// Opens a session, and makes it the process's. The caller holds Process::calls.
// `comes_later`: a newcomer does not come to the others now.
Result<void> open_session(const StartOptions& wanted, MemberCome come, CarriedOver carried,
                          bool comes_later) {
  Process& own = process();
  HVD_CHECK(open_link());
  come.commits = own.commits;
  ProcessParts parts{own.starts, own.buffers.memory(), own.session_handles.next_engine(),
                     own.session_handles.last() + 1};
  parts.link = own.link.get();
  parts.come = come;
  parts.first_local_rank = own.first_local_rank;
  parts.newcomer = is_newcomer(process_environment()) && !own.has_joined;
  parts.provisional = parts.newcomer && comes_later;
  auto session =
      Session::open(process_environment(), wanted, parts, std::move(carried), own.lasting);
  set_handlers();  // also after an error, because `lasting` must be closed
  if (!session.ok()) return session.error();
  if (own.link != nullptr && !own.first_local_rank)
    own.first_local_rank = (*session)->numbers().local_rank;
  own.has_joined = own.has_joined || (own.link != nullptr && !parts.provisional);
  {
    const std::lock_guard state(own.state);
    own.session_handles.begin((*session)->generation());
    own.session = std::move(*session);
  }
  standing_error.clear();
  return {};
}

}  // namespace

hvd_status join_job(const char* what, const StartOptions& wanted) {
  if (process().forked) return report(in_forked_child(what));
  const std::lock_guard lock(process().calls);
  if (process().session != nullptr)
    return report(fail(HVD_ERROR_INVALID_ARGUMENT,
                       std::string(what) + ": already initialised; call hvd_shutdown first"));
  process().reported_failure = false;
  const Result<void> opened = open_session(wanted, {}, {}, true);
  return opened.ok() ? HVD_OK : report(with_context(what, opened.error()));
}

hvd_status leave_job(const char* what) {
  if (process().forked) return report(in_forked_child(what));
  const std::lock_guard lock(process().calls);
  Session* const session = process().session.get();
  if (session == nullptr) return report(not_initialized(what));
  end_timeline(*session);
  const auto lost = session->stop();
  const hvd_status status = lost ? report(with_context(what, *lost)) : HVD_OK;
  close_session();
  say_goodbye();
  return status;
}

hvd_status come_to_next_generation(const char* what) {
  if (process().forked) return report(in_forked_child(what));
  if (RootBody::running()) return report(inside_root_body(what));
  const std::lock_guard lock(process().calls);
  if (!has_agent(process_environment()))
    return report(fail(HVD_ERROR_UNSUPPORTED,
                       std::string(what) +
                           ": this job ends when a rank is lost. Start it with hvdrun --min-np, "
                           "and it continues with the other ranks"));
  Session* const session = process().session.get();
  if (session == nullptr || process().link == nullptr) return report(not_initialized(what));
  const MemberCome come = session->come_after();
  static_cast<void>(session->stop());  // results on GPUs that are lost are computed again
  CarriedOver carried = session->carry_over();
  close_session();
  const Result<void> opened = open_session({}, come, std::move(carried), false);
  return opened.ok() ? HVD_OK : report(with_context(what, opened.error()));
}

}  // namespace libhvd
