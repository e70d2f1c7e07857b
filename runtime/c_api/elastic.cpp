// The C ABI of hvd/elastic.h.
#include "c_api/c_api.hpp"
#include "c_api/give.hpp"
#include "c_api/session_life.hpp"
#include "session/elastic_state.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>

#include <hvd/elastic.h>

using libhvd::CallOptions;
using libhvd::fail;
using libhvd::give;
using libhvd::guard;
using libhvd::null_pointer;
using libhvd::process;
using libhvd::report;
using libhvd::Result;
using libhvd::Session;
using libhvd::with_context;

struct hvd_state {
  libhvd::ElasticState state;
};

namespace {

// Sets the number of commits of this process, also on the status page.
void set_commits(std::uint64_t commits) {
  process().commits = commits;
  const libhvd::SessionReader session;
  if (session.get() != nullptr) session.get()->page().set_commits(commits);
}

// Runs body: (ElasticState&) -> Result<void>, on this rank alone.
template <class Body>
hvd_status with_state(const char* what, hvd_state* state, const Body& body) {
  return guard(what, [&]() -> hvd_status {
    if (process().forked) return report(libhvd::in_forked_child(what));
    if (state == nullptr) return report(null_pointer(what));
    const Result<void> outcome = body(state->state);
    return outcome.ok() ? HVD_OK : report(with_context(what, outcome.error()));
  });
}

}  // namespace

int hvd_elastic(void) {
  return libhvd::has_agent(libhvd::process_environment()) ? 1 : 0;
}

int hvd_generation(void) {
  return libhvd::query("hvd_generation", [](const Session& session) {
    return static_cast<int>(session.generation());
  });
}

int hvd_member(void) {
  return libhvd::query("hvd_member", [](const Session& session) { return session.member(); });
}

int hvd_newest(void) {
  return libhvd::query("hvd_newest", [](const Session& session) { return session.newest(); });
}

int hvd_newcomer(void) {
  return libhvd::query("hvd_newcomer",
                       [](const Session& session) { return session.newcomer() ? 1 : 0; });
}

hvd_status hvd_check_updates(uint32_t* bits) {
  constexpr const char* what = "hvd_check_updates";
  std::uint32_t found = 0;
  const hvd_status status = libhvd::collective_of_session(
      what, {}, [&](Session& session, const CallOptions&) -> Result<void> {
        found = session.updates();
        if (hvd_elastic() == 0) return {};
        // The larger of each byte: an allreduce has no OR for several bits.
        std::array<std::uint8_t, 2> known{static_cast<std::uint8_t>(found & HVD_UPDATE_ADDED),
                                          static_cast<std::uint8_t>(found & HVD_UPDATE_REMOVED)};
        HVD_CHECK(session.communicator().allreduce(known.data(), known.data(), known.size(),
                                                   HVD_UINT8, HVD_MAX, {.name = what}));
        found = std::uint32_t{known[0]} | known[1];
        return {};
      });
  if (status == HVD_OK && bits != nullptr) *bits = found;
  return status;
}

uint32_t hvd_known_updates(void) {
  if (process().forked) return 0;
  const libhvd::SessionReader session;
  return session.get() != nullptr ? session.get()->updates() : 0;
}

hvd_status hvd_reform(void) {
  return guard("hvd_reform", [] { return libhvd::come_to_next_generation("hvd_reform"); });
}

hvd_status hvd_state_create(hvd_state** state) {
  return give("hvd_state_create", state, []() -> Result<hvd_state*> { return new hvd_state; });
}

hvd_status hvd_state_add(hvd_state* state, const char* name, void* data, size_t bytes,
                         int32_t memory) {
  return with_state("hvd_state_add", state, [=](auto& own) -> Result<void> {
    if (memory == HVD_CUDA)
      return fail(HVD_ERROR_UNSUPPORTED,
                  "blocks on the GPU cannot be committed yet; copy them to host memory");
    if (memory != HVD_HOST)
      return fail(HVD_ERROR_INVALID_ARGUMENT,
                  "the memory " + std::to_string(memory) + " is none of HVD_HOST, HVD_CUDA");
    if (name == nullptr || (data == nullptr && bytes > 0))
      return fail(HVD_ERROR_INVALID_ARGUMENT, "a null pointer");
    return own.add(name, static_cast<std::byte*>(data), bytes);
  });
}

hvd_status hvd_state_commit(hvd_state* state) {
  return with_state("hvd_state_commit", state, [](auto& own) -> Result<void> {
    own.commit();
    set_commits(process().commits + 1);
    return {};
  });
}

hvd_status hvd_state_restore(hvd_state* state) {
  return with_state("hvd_state_restore", state, [](auto& own) { return own.restore(); });
}

hvd_status hvd_state_sync(hvd_state* state) {
  constexpr const char* what = "hvd_state_sync";
  if (state == nullptr) return libhvd::take_part(what, [=] { return report(null_pointer(what)); });
  std::uint64_t commits = 0;
  const hvd_status status = libhvd::collective_of_session(
      what, {}, [&](Session& session, const CallOptions&) -> Result<void> {
        auto given = state->state.sync(session.communicator(), session.newest(), process().commits);
        if (!given.ok()) return with_context(what, given.error());
        commits = *given;
        return {};
      });
  if (status == HVD_OK) set_commits(commits);
  return status;
}

void hvd_state_free(hvd_state* state) {
  delete state;
}

hvd_status hvd_set_commits(uint64_t commits) {
  return guard("hvd_set_commits", [=]() -> hvd_status {
    if (process().forked) return report(libhvd::in_forked_child("hvd_set_commits"));
    set_commits(commits);
    return HVD_OK;
  });
}
