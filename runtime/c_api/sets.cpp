// The C ABI of hvd.h: process sets, and hvd_join.
#include "c_api/c_api.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

namespace {

using libhvd::CallOptions;
using libhvd::fail;
using libhvd::Result;
using libhvd::Session;

// Returns the result of body: (const std::vector<int>& ranks of the set, int this rank in the job)
// -> int, at least 0; the negative of a status if there is no such set.
template <class Body>
int query_set(const char* what, std::int32_t set, Body body) {
  int answer = 0;
  const hvd_status status = libhvd::with_session(what, [&](Session& session) -> Result<void> {
    HVD_TRY(const auto ranks, session.ranks_of(set));
    answer = body(ranks, session.topology().rank);
    return {};
  });
  return status == HVD_OK ? answer : -status;
}

}  // namespace

hvd_status hvd_add_process_set(const int* ranks, size_t count, int32_t* process_set) {
  return libhvd::collective_of_session(
      "hvd_add_process_set", {}, [=](Session& session, const CallOptions&) -> Result<void> {
        const bool sound = process_set != nullptr && (ranks != nullptr || count == 0);
        // More ranks than the job has are wrong in any case, so the rest need not be copied.
        const auto enough = static_cast<std::size_t>(session.topology().size) + 1;
        const std::vector<int> wanted(ranks, sound ? ranks + std::min(count, enough) : ranks);
        HVD_TRY(const std::int32_t added, session.add_process_set(wanted));
        if (!sound) return fail(HVD_ERROR_INVALID_ARGUMENT, "hvd_add_process_set: a null pointer");
        *process_set = added;
        return {};
      });
}

hvd_status hvd_remove_process_set(int32_t process_set) {
  return libhvd::collective_of_session("hvd_remove_process_set", {},
                                       [=](Session& session, const CallOptions&) {
                                         return session.remove_process_set(process_set);
                                       });
}

int hvd_process_set_size(int32_t process_set) {
  return query_set("hvd_process_set_size", process_set, [](const std::vector<int>& ranks, int) {
    return static_cast<int>(ranks.size());
  });
}

int hvd_process_set_included(int32_t process_set) {
  return query_set("hvd_process_set_included", process_set,
                   [](const std::vector<int>& ranks, int own) {
                     return std::binary_search(ranks.begin(), ranks.end(), own) ? 1 : 0;
                   });
}

int hvd_process_set_rank(int32_t process_set) {
  const int rank = query_set("hvd_process_set_rank", process_set,
                             [](const std::vector<int>& ranks, int own) -> int {
                               const auto found = std::find(ranks.begin(), ranks.end(), own);
                               return static_cast<int>(found - ranks.begin());
                             });
  if (rank < 0 || hvd_process_set_included(process_set) != 0) return rank;
  return -libhvd::report(
      fail(HVD_ERROR_INVALID_ARGUMENT,
           "hvd_process_set_rank: this rank is not in process set " + std::to_string(process_set)));
}

int hvd_process_set_ranks(int32_t process_set, int* ranks, size_t room) {
  return query_set("hvd_process_set_ranks", process_set, [=](const std::vector<int>& known, int) {
    if (ranks != nullptr) std::copy_n(known.begin(), std::min(room, known.size()), ranks);
    return static_cast<int>(known.size());
  });
}

int hvd_process_sets(int32_t* process_sets, size_t room) {
  int count = 0;
  const hvd_status status = libhvd::with_session("hvd_process_sets", [&](Session& session) {
    const std::vector<std::int32_t> numbers = session.process_set_numbers();
    if (process_sets != nullptr)
      std::copy_n(numbers.begin(), std::min(room, numbers.size()), process_sets);
    count = static_cast<int>(numbers.size());
    return Result<void>();
  });
  return status == HVD_OK ? count : -status;
}

// The status page does not show it as a collective, because a rank that has joined waits for no
// other.
hvd_status hvd_join(int* last_rank) {
  return libhvd::in_program_order("hvd_join", [=](Session& session) -> Result<void> {
    HVD_TRY(const int last, session.join());
    if (last_rank != nullptr) *last_rank = last;
    return {};
  });
}
