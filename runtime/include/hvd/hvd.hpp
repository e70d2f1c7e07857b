// libhvd for C++20: the C ABI of hvd.h with spans, types and exceptions. Header only.
//
//   hvd::init();
//   hvd::allreduce(std::span(gradients), hvd::Op::sum, "gradients");   // in place
//   hvd::rank0() << "step " << step << '\n';                          // printed once
//   hvd::shutdown();
//
// What the calls do, which order and threads they need, and what fails how stands in hvd.h. Here
// every failure is an exception, hvd::Error, with the status and the same text. No exception
// crosses the library's border: it is thrown in the caller's own code.
#ifndef HVD_HVD_HPP_
#define HVD_HVD_HPP_

#include "hvd/float16.hpp"
#include "hvd/hvd.h"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hvd {

class Error : public std::runtime_error {
 public:
  Error(hvd_status status, const char* message) : std::runtime_error(message), status_(status) {}
  hvd_status status() const noexcept { return status_; }  // HVD_ERROR_…

 private:
  hvd_status status_;
};

enum class Op : hvd_op {
  average = HVD_AVERAGE,
  sum = HVD_SUM,
  min = HVD_MIN,
  max = HVD_MAX,
  product = HVD_PRODUCT,
};

// Which of several values of a metric is the best.
enum class Best : hvd_best { none = HVD_BEST_NONE, min = HVD_BEST_MIN, max = HVD_BEST_MAX };

namespace detail {

inline void check(hvd_status status) {
  if (status != HVD_OK) throw Error(status, hvd_last_error());
}

inline int number(int answer) {
  if (answer < 0) check(-answer);
  return answer;
}

// The hvd_type of T, or -1 when the library has none (unsigned integers above 16 bits, …).
template <class T>
consteval hvd_type find_type() {
  if (std::same_as<T, bool>) return HVD_BOOL;
  if (std::same_as<T, float16>) return HVD_FLOAT16;
  if (std::same_as<T, bfloat16>) return HVD_BFLOAT16;
  if (std::same_as<T, float>) return HVD_FLOAT32;
  if (std::same_as<T, double>) return HVD_FLOAT64;
  if (std::signed_integral<T>) {
    switch (sizeof(T)) {
      case 1:
        return HVD_INT8;
      case 2:
        return HVD_INT16;
      case 4:
        return HVD_INT32;
      case 8:
        return HVD_INT64;
      default:
        return -1;
    }
  }
  if (std::unsigned_integral<T> && sizeof(T) == 1) return HVD_UINT8;
  if (std::unsigned_integral<T> && sizeof(T) == 2) return HVD_UINT16;
  return -1;
}

// `name` must outlive the call.
hvd_options named(std::string&&) = delete;
inline hvd_options named(const std::string& name) {
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = name.empty() ? nullptr : name.c_str();
  return options;
}

}  // namespace detail

// A type whose elements the collectives take.
template <class T>
concept Element = detail::find_type<T>()
>= 0;

inline void init() {
  detail::check(hvd_init());
}
inline void shutdown() {
  detail::check(hvd_shutdown());
}
inline bool initialized() {
  return hvd_initialized() != 0;
}

inline int rank() {
  return detail::number(hvd_rank());
}
inline int size() {
  return detail::number(hvd_size());
}
inline int local_rank() {
  return detail::number(hvd_local_rank());
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

// output[i] = op over all ranks of input[i]. Both spans have the same length, on all ranks.
template <Element T, std::size_t N>
void allreduce(std::span<const std::type_identity_t<T>> input, std::span<T, N> output, Op op,
               const std::string& name = {}) {
  if (input.size() != output.size()) {
    throw Error(HVD_ERROR_INVALID_ARGUMENT, "hvd::allreduce: input and output differ in length");
  }
  const hvd_options options = detail::named(name);
  detail::check(hvd_allreduce(input.data(), output.data(), output.size(), detail::find_type<T>(),
                              static_cast<hvd_op>(op), &options));
}

// In place.
template <Element T, std::size_t N>
void allreduce(std::span<T, N> values, Op op, const std::string& name = {}) {
  allreduce<T, N>(values, values, op, name);
}

// One value.
template <Element T>
T allreduce(T value, Op op, const std::string& name = {}) {
  allreduce(std::span<T, 1>(&value, 1), op, name);
  return value;
}

// The root's values, on all ranks.
template <Element T, std::size_t N>
void broadcast(std::span<T, N> values, int root, const std::string& name = {}) {
  const hvd_options options = detail::named(name);
  detail::check(
      hvd_broadcast(values.data(), values.size(), detail::find_type<T>(), root, &options));
}

// One value.
template <Element T>
T broadcast(T value, int root, const std::string& name = {}) {
  broadcast(std::span<T, 1>(&value, 1), root, name);
  return value;
}

// All ranks' values, rank 0's first. Ranks may give different numbers of them. Not for bool:
// std::vector<bool> has no elements to fill; gather bytes.
template <class T, std::size_t N>
requires Element<std::remove_const_t<T>> &&(!std::same_as<std::remove_const_t<T>, bool>)
    std::vector<std::remove_const_t<T>> allgather(std::span<T, N> input,
                                                  const std::string& name = {}) {
  using Value = std::remove_const_t<T>;
  const hvd_options options = detail::named(name);
  const auto own = static_cast<std::int64_t>(input.size());
  std::vector<std::int64_t> rows(static_cast<std::size_t>(size()));
  detail::check(hvd_allgather(&own, 1, 1, HVD_INT64, rows.data(), rows.size(), nullptr, &options));
  const auto total = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  std::vector<Value> output(static_cast<std::size_t>(total));
  detail::check(hvd_allgather(input.data(), input.size(), 1, detail::find_type<Value>(),
                              output.data(), output.size(), nullptr, &options));
  return output;
}

// Reduces values, as many on all ranks, and returns this rank's share of the result.
template <class T, std::size_t N>
requires Element<std::remove_const_t<T>> &&(!std::same_as<std::remove_const_t<T>, bool>)
    std::vector<std::remove_const_t<T>> reducescatter(std::span<T, N> input, Op op,
                                                      const std::string& name = {}) {
  using Value = std::remove_const_t<T>;
  const hvd_options options = detail::named(name);
  const auto ranks = static_cast<std::size_t>(size());
  const bool one_more = static_cast<std::size_t>(rank()) < input.size() % ranks;
  std::vector<Value> output(input.size() / ranks + (one_more ? 1 : 0));
  detail::check(hvd_reducescatter(input.data(), input.size(), 1, detail::find_type<Value>(),
                                  static_cast<hvd_op>(op), output.data(), &options));
  return output;
}

// Gives splits[r] of the values to rank r, in the order of ranks, and returns what comes, rank 0's
// first.
template <class T, std::size_t N>
requires Element<std::remove_const_t<T>> &&
    (!std::same_as<std::remove_const_t<T>, bool>)std::vector<std::remove_const_t<T>> alltoall(
        std::span<T, N> input, std::span<const std::size_t> splits, const std::string& name = {}) {
  using Value = std::remove_const_t<T>;
  const hvd_options options = detail::named(name);
  if (splits.size() != static_cast<std::size_t>(size()))
    throw Error(HVD_ERROR_INVALID_ARGUMENT, "hvd::alltoall: the splits are not one a rank");
  std::vector<std::size_t> coming(splits.size());
  detail::check(hvd_alltoall(splits.data(), nullptr, splits.size(), 1,
                             detail::find_type<std::int64_t>(), coming.data(), coming.size(),
                             nullptr, &options));
  std::vector<Value> output(std::accumulate(coming.begin(), coming.end(), std::size_t{0}));
  detail::check(hvd_alltoall(input.data(), splits.data(), input.size(), 1,
                             detail::find_type<Value>(), output.data(), output.size(), nullptr,
                             &options));
  return output;
}

// A collective in the background. Waits at its end when nobody has before, and drops what that
// says.
class Handle {
 public:
  explicit Handle(hvd_handle handle) : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, 0)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() {
    if (handle_ != 0) hvd_wait(handle_);
  }

  bool done() const {
    int answer = 0;
    detail::check(hvd_poll(handle_, &answer));
    return answer != 0;
  }
  // Once.
  void wait() { detail::check(hvd_wait(std::exchange(handle_, 0))); }

 private:
  hvd_handle handle_;
};

// In place. The values must stay until it is done.
template <Element T, std::size_t N>
[[nodiscard]] Handle allreduce_async(std::span<T, N> values, Op op, const std::string& name = {}) {
  const hvd_options options = detail::named(name);
  hvd_handle handle = 0;
  detail::check(hvd_allreduce_async(values.data(), values.data(), values.size(),
                                    detail::find_type<T>(), static_cast<hvd_op>(op), &options,
                                    &handle));
  return Handle(handle);
}

template <Element T, std::size_t N>
[[nodiscard]] Handle broadcast_async(std::span<T, N> values, int root,
                                     const std::string& name = {}) {
  const hvd_options options = detail::named(name);
  hvd_handle handle = 0;
  detail::check(hvd_broadcast_async(values.data(), values.size(), detail::find_type<T>(), root,
                                    &options, &handle));
  return Handle(handle);
}

// An array in memory that the other ranks of the host can reach, so that collectives need not copy
// it (hvd_alloc). Elements are zero at first. Needs hvd::init() to be made.
template <Element T>
class Buffer {
 public:
  explicit Buffer(std::size_t size) : size_(size) {
    void* memory = nullptr;
    if (size > 0) detail::check(hvd_alloc(size * sizeof(T), &memory));
    data_ = static_cast<T*>(memory);
  }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Buffer() { hvd_free(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) const { return data_[i]; }
  std::span<T> span() const { return {data_, size_}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

// Returns when all ranks have called it.
inline void barrier(const std::string& name = {}) {
  const hvd_options options = detail::named(name);
  detail::check(hvd_barrier(&options));
}

// std::cout on rank 0; elsewhere a stream that drops everything.
inline std::ostream& rank0() {
  thread_local std::ostream nowhere(nullptr);
  return rank() == 0 ? std::cout : nowhere;
}

inline void set_step(std::uint64_t step) {
  detail::check(hvd_set_step(step));
}
inline void set_epoch(std::uint64_t epoch) {
  detail::check(hvd_set_epoch(epoch));
}
inline void add_samples(std::uint64_t samples) {
  detail::check(hvd_add_samples(samples));
}

// HVD_NOTICE_ bits that the launcher has set so far.
inline std::uint32_t notice() {
  std::uint32_t bits = 0;
  detail::check(hvd_notice(&bits, nullptr));
  return bits;
}

// Seconds until the job must be over; infinity when not known.
inline double time_left() {
  double seconds = 0;
  detail::check(hvd_time_left(&seconds));
  return seconds;
}

}  // namespace hvd

#endif  // HVD_HVD_HPP_
