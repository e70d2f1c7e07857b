// The job in C++20: starting and leaving it, the numbers of this rank, process sets, and
// hvd::Error, which every call throws that fails. A part of hvd.hpp. Any thread may make these
// calls.
#ifndef HVD_JOB_HPP_
#define HVD_JOB_HPP_

#include "hvd/hvd.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace hvd {

// Returns the meaning of a status in a few words. See hvd_status_string.
inline const char* status_string(hvd_status status) {
  return hvd_status_string(status);
}

// A call that failed. what() is the text of hvd_last_error().
class Error : public std::runtime_error {
 public:
  Error(hvd_status status, const char* message) : std::runtime_error(message), status_(status) {}
  hvd_status status() const noexcept { return status_; }  // HVD_ERROR_…

 private:
  hvd_status status_;
};

namespace detail {

// Throws the Error of a call that did not return HVD_OK.
inline void check(hvd_status status) {
  if (status == HVD_OK) return;
  const char* const text = hvd_last_error();
  throw Error(status, *text == '\0' ? hvd_status_string(status) : text);
}

// Returns the number that a query returned. Throws the Error if it is the negative of a status.
inline int number(int answer) {
  if (answer < 0) check(-answer);
  return answer;
}

}  // namespace detail

// Joins the job; see hvd_init.
inline void init() {
  detail::check(hvd_init());
}

// See hvd_init_options. Until hvd::shutdown a rank's number is its position in `ranks`.
struct InitOptions {
  std::vector<int> ranks = {};                      // that start together; empty: all
  std::vector<std::vector<int>> process_sets = {};  // later ProcessSet::from_id(1), (2), ...
};

// Joins the job with some of the ranks, or with process sets; see hvd_init_with.
inline void init(const InitOptions& options) {
  std::vector<hvd_rank_list> sets;
  for (const std::vector<int>& ranks : options.process_sets)
    sets.push_back({ranks.data(), ranks.size()});
  hvd_init_options given{};
  given.struct_size = sizeof given;
  given.ranks = options.ranks.empty() ? nullptr : options.ranks.data();
  given.rank_count = options.ranks.size();
  given.process_sets = sets.data();
  given.process_set_count = sets.size();
  detail::check(hvd_init_with(&given));
}

// Leaves the job; see hvd_shutdown.
inline void shutdown() {
  detail::check(hvd_shutdown());
}
// Returns whether this is between hvd::init() and hvd::shutdown(). Never throws.
inline bool initialized() {
  return hvd_initialized() != 0;
}

// See the functions hvd_rank ... of hvd.h for what these numbers are.
inline int rank() {
  return detail::number(hvd_rank());
}
inline int size() {
  return detail::number(hvd_size());
}
inline int local_rank() {
  return detail::number(hvd_local_rank());
}
inline int local_device() {
  return detail::number(hvd_local_device());
}
inline int local_size() {
  return detail::number(hvd_local_size());
}
inline int cross_rank() {
  return detail::number(hvd_cross_rank());
}
inline int cross_size() {
  return detail::number(hvd_cross_size());
}
inline int node_rank() {
  return detail::number(hvd_node_rank());
}
inline int node_count() {
  return detail::number(hvd_node_count());
}
inline int restart_count() {
  return detail::number(hvd_restart_count());
}
inline bool is_homogeneous() {
  return detail::number(hvd_is_homogeneous()) != 0;
}

// The number of a process set: some of the ranks of the job, with collectives of their own. A copy
// means the same set. The set lasts until remove() or hvd::shutdown().
class ProcessSet {
 public:
  ProcessSet() = default;  // all ranks

  // Makes a set. A collective of all ranks of the job, with the same ranks; see
  // hvd_add_process_set.
  explicit ProcessSet(std::span<const int> ranks) {
    detail::check(hvd_add_process_set(ranks.data(), ranks.size(), &id_));
  }
  explicit ProcessSet(std::initializer_list<int> ranks)
      : ProcessSet(std::span(ranks.begin(), ranks.size())) {}

  // Returns a set that exists, such as one of InitOptions::process_sets; the first has id 1.
  static ProcessSet from_id(std::int32_t id) {
    ProcessSet set;
    set.id_ = id;
    return set;
  }
  [[deprecated("the new name is from_id")]] static ProcessSet numbered(std::int32_t number) {
    return from_id(number);
  }

  // Removes the set. A collective of all ranks of the job. This object means all ranks after that.
  void remove() { detail::check(hvd_remove_process_set(std::exchange(id_, 0))); }

  std::int32_t id() const { return id_; }
  [[deprecated("the new name is id")]] std::int32_t number() const { return id_; }
  int size() const { return detail::number(hvd_process_set_size(id_)); }
  // Returns whether this rank is in the set.
  bool included() const { return detail::number(hvd_process_set_included(id_)) != 0; }
  // Returns this rank's number in the set, 0 ... size-1. Error: it is not in the set.
  int rank() const { return detail::number(hvd_process_set_rank(id_)); }
  std::vector<int> ranks() const {
    std::vector<int> all(static_cast<std::size_t>(size()));
    detail::number(hvd_process_set_ranks(id_, all.data(), all.size()));
    return all;
  }

 private:
  std::int32_t id_ = 0;
};

}  // namespace hvd

#endif  // HVD_JOB_HPP_
