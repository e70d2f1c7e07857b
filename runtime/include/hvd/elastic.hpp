// A training that continues when ranks are lost, in C++20: hvd/elastic.h with owners and exceptions
// (hvd::Error). Header only. docs/train/elastic.md is the guide.
//
//   std::vector<double> weights(1000);
//   std::int64_t step = 0;
//   hvd::elastic::State state;
//   state.add("weights", weights).add("step", step);
//   hvd::elastic::run(state, [&] {
//     for (; step < steps;) {
//       train(step++, weights);  // its allreduce throws when a rank is lost
//       state.commit();
//     }
//   });
#ifndef HVD_ELASTIC_HPP_
#define HVD_ELASTIC_HPP_

#include "hvd/elastic.h"
#include "hvd/job.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hvd::elastic {

// Returns whether the job continues when ranks are lost (hvdrun --min-np). Works before
// hvd::init().
inline bool is_elastic() {
  return hvd_elastic() != 0;
}

// See hvd_generation, hvd_member and hvd_newest.
inline int generation() {
  return hvd::detail::number(hvd_generation());
}
inline int member() {
  return hvd::detail::number(hvd_member());
}
inline int newest() {
  return hvd::detail::number(hvd_newest());
}

// Returns whether this process was started while the job runs, and is not in it yet; see
// hvd_newcomer.
inline bool is_newcomer() {
  return hvd::detail::number(hvd_newcomer()) != 0;
}

// Thrown on all ranks when ranks can be added or are to leave. run() catches it.
class Updated : public std::runtime_error {
 public:
  explicit Updated(std::uint32_t bits)
      : std::runtime_error("hvd: the ranks of the job change"), bits_(bits) {}
  std::uint32_t bits() const { return bits_; }  // HVD_UPDATE_

 private:
  std::uint32_t bits_;
};

// Throws Updated, on all ranks, if new ranks are ready; see hvd_check_updates. A collective. Call
// it in the function of run() after a commit, because run() goes back to the last one.
inline void check_updates() {
  std::uint32_t bits = 0;
  hvd::detail::check(hvd_check_updates(&bits));
  if (bits != 0) throw Updated(bits);
}

// Comes to the next generation; see hvd_reform. run() calls it.
inline void reform() {
  hvd::detail::check(hvd_reform());
}

// Sets the commits of a state that the program keeps elsewhere; see hvd_set_commits.
inline void set_commits(std::uint64_t commits) {
  hvd::detail::check(hvd_set_commits(commits));
}

// What every rank has alike, and what the training needs to go on; see hvd_state. The program keeps
// the variables, which must live as long as the State. One thread at a time.
class State {
 public:
  State() {
    hvd_state* state = nullptr;
    hvd::detail::check(hvd_state_create(&state));
    state_.reset(state);
  }

  // Adds host memory. Returns this object, as the next ones do.
  template <class T, std::size_t N>
  requires std::is_trivially_copyable_v<T> State& add(const std::string& name,
                                                      std::span<T, N> values) {
    return add_block(name, values.data(), values.size_bytes());
  }

  // Adds a vector, which must keep its size and not move.
  template <class T>
  requires std::is_trivially_copyable_v<T> &&
      (!std::same_as<T, bool>)State& add(const std::string& name, std::vector<T>& values) {
    add_block(name, values.data(), values.size() * sizeof(T));
    vectors_.push_back([&values, name, data = values.data(), size = values.size()] {
      if (values.data() == data && values.size() == size) return;
      throw Error(HVD_ERROR_INVALID_ARGUMENT,
                  ("hvd::elastic::State: the vector \"" + name +
                   "\" has another size or place than when it was added")
                      .c_str());
    });
    return *this;
  }

  // Adds one object: a number, an array, or a struct without pointers to memory of its own.
  template <class T>
  requires std::is_trivially_copyable_v<T> &&
      (!std::is_pointer_v<T>)&&(!std::ranges::view<T>)State& add(const std::string& name,
                                                                 T& value) {
    return add_block(name, &value, sizeof value);
  }

  // Adds what run() calls after each hvd_reform, before the state is synchronised: for what depends
  // on rank and size, such as process sets and learning rates. In the order of the calls.
  State& on_reset(std::function<void()> callback) {
    callbacks_.push_back(std::move(callback));
    return *this;
  }

  // Copies the variables; see hvd_state_commit. Call it after each step, or after several: what was
  // done since the last one is done again after a loss.
  void commit() {
    check_vectors();
    hvd::detail::check(hvd_state_commit(state_.get()));
  }
  // Takes the variables back to the last commit; see hvd_state_restore.
  void restore() {
    check_vectors();
    hvd::detail::check(hvd_state_restore(state_.get()));
  }
  // Gives the newest state to all ranks; see hvd_state_sync. A collective.
  void sync() {
    check_vectors();
    hvd::detail::check(hvd_state_sync(state_.get()));
  }
  // Calls the callbacks.
  void reset() const {
    for (const auto& callback : callbacks_) callback();
  }

 private:
  struct Free {
    void operator()(hvd_state* state) const { hvd_state_free(state); }
  };

  State& add_block(const std::string& name, void* data, std::size_t bytes) {
    hvd::detail::check(hvd_state_add(state_.get(), name.c_str(), data, bytes, HVD_HOST));
    return *this;
  }
  void check_vectors() const {
    for (const auto& check : vectors_) check();
  }

  std::unique_ptr<hvd_state, Free> state_;
  std::vector<std::function<void()>> vectors_;  // throw if one has moved
  std::vector<std::function<void()>> callbacks_;
};

// Runs a training until it has ended well, on all ranks. First gives the newest state to all. When
// `train` throws an hvd::Error with HVD_ERROR_PEER, takes the state back to the last commit, comes
// to the next generation, calls the reset callbacks, and begins again. Returns what `train`
// returns.
//
// A newcomer waits in it until the others take it in. If they end without it, the process exits
// with 0.
//
// Other errors leave it: HVD_ERROR_MISMATCH would come again and again. So does HVD_ERROR_REMOVED.
// In a job that ends when a rank is lost, HVD_ERROR_PEER leaves it, too.
//
// Call it once, between hvd::init() and hvd::shutdown(). What the ranks do together after it does
// not survive a loss.
template <std::invocable Train>
std::invoke_result_t<Train> run(State& state, Train train) {
  bool waits = is_newcomer();
  for (bool again = waits;; again = true) {
    try {
      if (again) {
        reform();
        state.reset();
      }
      waits = false;
      state.sync();
      return train();
    } catch (const Updated&) {
    } catch (const Error& error) {
      if (waits && error.status() == HVD_ERROR_REMOVED) std::exit(EXIT_SUCCESS);
      if (error.status() != HVD_ERROR_PEER || !is_elastic() || !initialized()) throw;
    }
    state.restore();
  }
}

}  // namespace hvd::elastic

#endif  // HVD_ELASTIC_HPP_
