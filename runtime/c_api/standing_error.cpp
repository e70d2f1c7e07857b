#include "c_api/standing_error.hpp"

#include "c_api/process.hpp"

#include <algorithm>
#include <array>

namespace libhvd {
namespace {

// Returns whether the function is a collective that moves data, or waits for one. Functions that
// end in _async count, too.
bool moves_data(std::string_view function) {
  constexpr std::array<std::string_view, 8> kBeginnings = {
      "hvd_allreduce",     "hvd_grouped_allreduce", "hvd_broadcast", "hvd_allgather",
      "hvd_reducescatter", "hvd_alltoall",          "hvd_wait",      "hvd_poll"};
  return std::any_of(kBeginnings.begin(), kBeginnings.end(),
                     [&](std::string_view beginning) { return function.starts_with(beginning); });
}

// Returns whether the function is a collective or a query. Its error is forgotten once data has
// moved.
bool ends_with_data(std::string_view function) {
  return function.empty() || moves_data(function) || function.starts_with("hvd_barrier") ||
         function.starts_with("hvd_process_set");
}

void show(std::string_view text, bool of_peer) {
  const SessionReader session;
  if (session.get() != nullptr) session.get()->page().set_error(text, of_peer);
}

}  // namespace

void StandingError::set(const Error& error) {
  if (process().forked) return;
  const std::lock_guard lock(mutex_);
  function_ = {};
  began_later_ = false;
  status_ = error.status;
  stands_ = true;
  show(error.message, error.status == HVD_ERROR_PEER);
}

void StandingError::note_end(std::string_view function, hvd_status status) {
  if (process().forked) return;
  const std::lock_guard lock(mutex_);
  if (!stands_) return;
  if (status != HVD_OK)
    function_ = function;
  else if (function == function_ && !moves_data(function))
    clear_locked();
}

void StandingError::note_success(std::string_view function) {
  if (process().forked || !moves_data(function)) return;
  const std::lock_guard lock(mutex_);
  if (stands_ && began_later_ && ends_with_data(function_)) clear_locked();
}

void StandingError::clear() {
  if (process().forked) return;
  const std::lock_guard lock(mutex_);
  if (stands_) clear_locked();
}

void StandingError::clear_locked() {
  stands_ = false;
  status_ = HVD_OK;
  function_ = {};
  show("", false);
}

}  // namespace libhvd
