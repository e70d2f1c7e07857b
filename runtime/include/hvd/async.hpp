// Collectives in the background in C++20. A part of hvd.hpp. Each function submits the collective
// that the blocking function of collectives.hpp does, and returns a future.
//
// The values must stay, and must not be used, until the collective is done. Splits, names and
// options need not stay. Ranks may submit in any order and from any thread. A future is used by one
// thread at a time. A wrong argument of one rank is an error on all, which wait() and get() throw.
// A name that is in use, and a call outside of a job, throw at once.
#ifndef HVD_ASYNC_HPP_
#define HVD_ASYNC_HPP_

#include "hvd/collectives.hpp"
#include "hvd/hvd.h"
#include "hvd/job.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace hvd {
namespace detail {

// What a collective in the background uses besides the caller's values: its result of type T, and a
// copy of the splits.
template <class T>
struct Pending {
  std::conditional_t<std::is_void_v<T>, std::monostate, T> result = {};
  std::vector<std::size_t> splits = {};
};

}  // namespace detail

// A collective in the background, and its result of type T (void: the collective writes to the
// caller's values). The destructor waits for the collective, and ignores its error.
template <class T = void>
class [[nodiscard]] Future {
 public:
  Future() = default;  // no collective: valid() is false
  // Takes over a handle of the C ABI, and what its collective uses.
  explicit Future(hvd_handle handle, std::unique_ptr<detail::Pending<T>> pending = nullptr)
      : handle_(handle), pending_(std::move(pending)) {}
  Future(Future&& other) noexcept
      : handle_(std::exchange(other.handle_, 0)), pending_(std::move(other.pending_)) {}
  // Waits for the collective that this future had before.
  Future& operator=(Future&& other) noexcept {
    Future taken(std::move(other));
    std::swap(handle_, taken.handle_);
    std::swap(pending_, taken.pending_);
    return *this;
  }
  ~Future() {
    if (handle_ != 0) hvd_wait(handle_);
  }

  // Returns whether get() may be called.
  bool valid() const { return handle_ != 0 || pending_ != nullptr; }
  // Returns whether the collective is done, without waiting. Throws if there is none to wait for.
  bool done() const {
    int answer = 0;
    detail::check(hvd_poll(handle_, &answer));
    return answer != 0;
  }
  // Waits until the collective is done, at most for `limit`, and returns whether it is. Throws if
  // there is none to wait for.
  template <class Number, class Period>
  bool wait_for(const std::chrono::duration<Number, Period>& limit) const {
    int answer = 0;
    const double seconds = std::chrono::duration<double>(limit).count();
    detail::check(hvd_wait_for(handle_, seconds, &answer));
    return answer != 0;
  }
  // Waits until the collective is done. Throws if it failed, or if there is none to wait for.
  void wait() {
    try {
      detail::check(hvd_wait(std::exchange(handle_, 0)));
    } catch (...) {
      pending_.reset();
      throw;
    }
  }
  // Waits and returns the result. Throws as wait() does. Call it once.
  T get() {
    if (handle_ != 0 || pending_ == nullptr) wait();
    if constexpr (!std::is_void_v<T>) return std::move(std::exchange(pending_, nullptr)->result);
  }

 private:
  hvd_handle handle_ = 0;
  std::unique_ptr<detail::Pending<T>> pending_;
};

using Handle [[deprecated("the new name is Future<>")]] = Future<>;

namespace detail {

// Returns the future of a collective that `submit` has submitted. `submit` gets the handle to set.
template <class T, class Submit>
Future<T> future_of(std::unique_ptr<Pending<T>> pending, const Submit& submit) {
  hvd_handle handle = 0;
  check(submit(&handle));
  return Future<T>(handle, std::move(pending));
}
template <class Submit>
Future<> future_of(const Submit& submit) {
  return future_of(std::unique_ptr<Pending<void>>(), submit);
}

}  // namespace detail

// Each of these is described at the blocking function of the same name and arguments.

template <Element T, std::size_t N>
Future<> allreduce_async(std::span<const std::type_identity_t<T>> input, std::span<T, N> output,
                         Op op, const Options& options = {}) {
  hvd_options read = detail::read(options);
  detail::check_lengths(input.size(), output.size(), read);
  return detail::future_of([&](hvd_handle* handle) {
    return hvd_allreduce_async(input.data(), output.data(), output.size(), detail::find_type<T>(),
                               static_cast<hvd_op>(op), &read, handle);
  });
}

template <Element T, std::size_t N>
Future<> allreduce_async(std::span<T, N> values, Op op, const Options& options = {}) {
  return allreduce_async<T, N>(values, values, op, options);
}

template <Element T>
Future<> grouped_allreduce_async(std::span<const std::span<T>> tensors, Op op,
                                 const Options& options = {}) {
  const hvd_options read = detail::read(options);
  const detail::Group<T> group(tensors);
  return detail::future_of([&](hvd_handle* handle) {
    return hvd_grouped_allreduce_async(tensors.size(), group.inputs.data(), group.outputs.data(),
                                       group.sizes.data(), detail::find_type<T>(),
                                       static_cast<hvd_op>(op), &read, handle);
  });
}

template <Element T, std::size_t N>
Future<> broadcast_async(std::span<T, N> values, int root, const Options& options = {}) {
  const hvd_options read = detail::read(options);
  return detail::future_of([&](hvd_handle* handle) {
    return hvd_broadcast_async(values.data(), values.size(), detail::find_type<T>(), root, &read,
                               handle);
  });
}

template <VectorElement T, std::size_t N>
Future<std::vector<std::remove_const_t<T>>> allgather_async(std::span<T, N> input,
                                                            const Options& options = {}) {
  using Value = std::remove_const_t<T>;
  auto pending = std::make_unique<detail::Pending<std::vector<Value>>>();
  const hvd_options read = detail::with_output(detail::read_for_host(options), pending->result);
  return detail::future_of(std::move(pending), [&](hvd_handle* handle) {
    return hvd_allgather_async(input.data(), input.size(), 1, detail::find_type<Value>(), nullptr,
                               0, nullptr, &read, handle);
  });
}

template <Element T, std::size_t N>
Future<std::vector<std::size_t>> allgather_async(std::span<const std::type_identity_t<T>> input,
                                                 std::span<T, N> output,
                                                 const Options& options = {}) {
  const hvd_options read = detail::read(options);
  auto pending = std::make_unique<detail::Pending<std::vector<std::size_t>>>();
  pending->result.resize(static_cast<std::size_t>(options.on.size()));
  std::size_t* const received = pending->result.data();
  return detail::future_of(std::move(pending), [&](hvd_handle* handle) {
    return hvd_allgather_async(input.data(), input.size(), 1, detail::find_type<T>(), output.data(),
                               output.size(), received, &read, handle);
  });
}

template <VectorElement T, std::size_t N>
Future<std::vector<std::remove_const_t<T>>> reducescatter_async(std::span<T, N> input, Op op,
                                                                const Options& options = {}) {
  using Value = std::remove_const_t<T>;
  const hvd_options read = detail::read_for_host(options);
  auto pending = std::make_unique<detail::Pending<std::vector<Value>>>();
  pending->result.resize(detail::part_of(input.size(), options.on));
  Value* const output = pending->result.data();
  return detail::future_of(std::move(pending), [&](hvd_handle* handle) {
    return hvd_reducescatter_async(input.data(), input.size(), 1, detail::find_type<Value>(),
                                   static_cast<hvd_op>(op), output, &read, handle);
  });
}

template <Element T, std::size_t N>
Future<> reducescatter_async(std::span<const std::type_identity_t<T>> input, std::span<T, N> output,
                             Op op, const Options& options = {}) {
  hvd_options read = detail::read(options);
  detail::check_part(detail::part_of(input.size(), options.on), output.size(), read);
  return detail::future_of([&](hvd_handle* handle) {
    return hvd_reducescatter_async(input.data(), input.size(), 1, detail::find_type<T>(),
                                   static_cast<hvd_op>(op), output.data(), &read, handle);
  });
}

template <VectorElement T, std::size_t N>
Future<std::vector<std::remove_const_t<T>>> alltoall_async(std::span<T, N> input,
                                                           std::span<const std::size_t> splits,
                                                           const Options& options = {}) {
  using Value = std::remove_const_t<T>;
  auto pending = std::make_unique<detail::Pending<std::vector<Value>>>();
  pending->splits.assign(splits.begin(), splits.end());
  const std::size_t* const copy = pending->splits.data();
  hvd_options read = detail::with_output(detail::read_for_host(options), pending->result);
  detail::check_splits(splits.size(), options.on, read);
  return detail::future_of(std::move(pending), [&](hvd_handle* handle) {
    return hvd_alltoall_async(input.data(), copy, input.size(), 1, detail::find_type<Value>(),
                              nullptr, 0, nullptr, &read, handle);
  });
}

template <Element T, std::size_t N>
Future<std::vector<std::size_t>> alltoall_async(std::span<const std::type_identity_t<T>> input,
                                                std::span<const std::size_t> splits,
                                                std::span<T, N> output,
                                                const Options& options = {}) {
  hvd_options read = detail::read(options);
  detail::check_splits(splits.size(), options.on, read);
  auto pending = std::make_unique<detail::Pending<std::vector<std::size_t>>>();
  pending->splits.assign(splits.begin(), splits.end());
  pending->result.resize(splits.size());
  const std::size_t* const copy = pending->splits.data();
  std::size_t* const received = pending->result.data();
  return detail::future_of(std::move(pending), [&](hvd_handle* handle) {
    return hvd_alltoall_async(input.data(), copy, input.size(), 1, detail::find_type<T>(),
                              output.data(), output.size(), received, &read, handle);
  });
}

inline Future<> barrier_async(const Options& options = {}) {
  const hvd_options read = detail::read(options);
  return detail::future_of([&](hvd_handle* handle) { return hvd_barrier_async(&read, handle); });
}

}  // namespace hvd

#endif  // HVD_ASYNC_HPP_
