// libhvd for C++20: the C ABI of hvd.h with spans, types and exceptions. Header only.
//
//   hvd::init();
//   hvd::allreduce(std::span(gradients), hvd::Op::sum, "gradients");   // in place
//   hvd::root_out() << "step " << step << '\n';                       // printed once
//   hvd::shutdown();
//
// hvd.h says what each call does, which order and threads the calls need, and how they fail. Here a
// failure is an exception, hvd::Error, with the same status and text. This header throws it, in
// the caller's own code, so no exception crosses the library's border.
#ifndef HVD_HVD_HPP_
#define HVD_HVD_HPP_

#include "hvd/float16.hpp"
#include "hvd/hvd.h"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <iostream>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
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

// A reduction; see hvd_op.
enum class Op : hvd_op {
  average = HVD_AVERAGE,
  sum = HVD_SUM,
  adasum = HVD_ADASUM,
  min = HVD_MIN,
  max = HVD_MAX,
  product = HVD_PRODUCT,
};

// Which value of a metric is the best; see hvd_best.
enum class Best : hvd_best { none = HVD_BEST_NONE, min = HVD_BEST_MIN, max = HVD_BEST_MAX };

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

// Returns the hvd_type of T; -1 if the library has none (unsigned integers above 16 bits, ...).
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

// Returns options with only a name, which must outlive the call.
hvd_options named(std::string&&) = delete;
inline hvd_options named(const std::string& name) {
  hvd_options options{};
  options.struct_size = sizeof options;
  options.name = name.empty() ? nullptr : name.c_str();
  return options;
}

// Makes the vector as long as the result; for hvd_options.allocate. Returns null without memory.
template <class T>
void* resize(void* vector, std::size_t rows) noexcept {
  auto& values = *static_cast<std::vector<T>*>(vector);
  try {
    values.resize(rows);
  } catch (const std::exception&) {
    return nullptr;
  }
  return values.data();
}

// Returns the options with `output` as the memory that the call allocates.
template <class T>
hvd_options with_output(hvd_options options, std::vector<T>& output) {
  options.allocate = &resize<T>;
  options.allocate_context = &output;
  return options;
}

}  // namespace detail

// A type that the elements of a collective may have: bool, float16, bfloat16, float, double, signed
// integers, and unsigned integers of 8 and 16 bits.
template <class T>
concept Element = detail::find_type<T>()
>= 0;

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

// Options of a collective; see hvd_options. A string converts to options with that name.
struct Options {
  Options() = default;
  Options(const char* tensor) : name(tensor) {}
  Options(std::string tensor) : name(std::move(tensor)) {}

  std::string name = {};      // the tensor's; "": no name
  double prescale = 1;        // of allreduce and reducescatter: factor before the reduction
  double postscale = 1;       // and after it
  ProcessSet on = {};         // the ranks that take part
  std::int32_t priority = 0;  // in the background: the largest first
};

namespace detail {

// Returns the options for the C ABI; `options` must outlive the call.
hvd_options read(Options&&) = delete;
inline hvd_options read(const Options& options) {
  hvd_options read = named(options.name);
  read.prescale = options.prescale;
  read.postscale = options.postscale;
  read.process_set = options.on.id();
  read.priority = options.priority;
  return read;
}

}  // namespace detail

// Takes part in the other ranks' sums and averages with zeros until all ranks have joined. Returns
// the last rank to join. See hvd_join.
inline int join() {
  int last = 0;
  detail::check(hvd_join(&last));
  return last;
}

// Reduces: output[i] = op over all ranks of input[i]. Both spans have the same length, which is the
// same on all ranks. See hvd_allreduce.
template <Element T, std::size_t N>
void allreduce(std::span<const std::type_identity_t<T>> input, std::span<T, N> output, Op op,
               const Options& options = {}) {
  if (input.size() != output.size()) {
    throw Error(HVD_ERROR_INVALID_ARGUMENT, "hvd::allreduce: input and output differ in length");
  }
  const hvd_options read = detail::read(options);
  detail::check(hvd_allreduce(input.data(), output.data(), output.size(), detail::find_type<T>(),
                              static_cast<hvd_op>(op), &read));
}

// Reduces in place.
template <Element T, std::size_t N>
void allreduce(std::span<T, N> values, Op op, const Options& options = {}) {
  allreduce<T, N>(values, values, op, options);
}

// Reduces one value and returns the result.
template <Element T>
T allreduce(T value, Op op, const Options& options = {}) {
  allreduce(std::span<T, 1>(&value, 1), op, options);
  return value;
}

// Reduces several tensors in place: all of them, or none. See hvd_grouped_allreduce.
template <Element T>
void grouped_allreduce(std::span<const std::span<T>> tensors, Op op, const Options& options = {}) {
  const hvd_options read = detail::read(options);
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<std::size_t> counts;
  for (const std::span<T>& tensor : tensors) {
    inputs.push_back(tensor.data());
    outputs.push_back(tensor.data());
    counts.push_back(tensor.size());
  }
  detail::check(hvd_grouped_allreduce(counts.size(), inputs.data(), outputs.data(), counts.data(),
                                      detail::find_type<T>(), static_cast<hvd_op>(op), &read));
}

// Copies the values of rank `root` to all ranks. See hvd_broadcast.
template <Element T, std::size_t N>
void broadcast(std::span<T, N> values, int root, const Options& options = {}) {
  const hvd_options read = detail::read(options);
  detail::check(hvd_broadcast(values.data(), values.size(), detail::find_type<T>(), root, &read));
}

// Returns the value of rank `root`.
template <Element T>
T broadcast(T value, int root, const Options& options = {}) {
  broadcast(std::span<T, 1>(&value, 1), root, options);
  return value;
}

// Returns the values of all ranks, rank 0's first. Ranks may give different numbers of values. Not
// for bool, because std::vector<bool> has no elements to write to: gather bytes instead. See
// hvd_allgather.
template <class T, std::size_t N>
requires Element<std::remove_const_t<T>> &&(!std::same_as<std::remove_const_t<T>, bool>)
    std::vector<std::remove_const_t<T>> allgather(std::span<T, N> input,
                                                  const Options& options = {}) {
  using Value = std::remove_const_t<T>;
  std::vector<Value> output;
  const hvd_options read = detail::with_output(detail::read(options), output);
  detail::check(hvd_allgather(input.data(), input.size(), 1, detail::find_type<Value>(), nullptr, 0,
                              nullptr, &read));
  return output;
}

// Reduces values, the same number on all ranks, and returns this rank's part of the result. See
// hvd_reducescatter.
template <class T, std::size_t N>
requires Element<std::remove_const_t<T>> &&(!std::same_as<std::remove_const_t<T>, bool>)
    std::vector<std::remove_const_t<T>> reducescatter(std::span<T, N> input, Op op,
                                                      const Options& options = {}) {
  using Value = std::remove_const_t<T>;
  const hvd_options read = detail::read(options);
  const auto ranks = static_cast<std::size_t>(options.on.size());
  const bool one_more = static_cast<std::size_t>(options.on.rank()) < input.size() % ranks;
  std::vector<Value> output(input.size() / ranks + (one_more ? 1 : 0));
  detail::check(hvd_reducescatter(input.data(), input.size(), 1, detail::find_type<Value>(),
                                  static_cast<hvd_op>(op), output.data(), &read));
  return output;
}

// Sends splits[r] of the values to rank r, in the order of ranks. Returns the values that this rank
// receives, those from rank 0 first. See hvd_alltoall.
template <class T, std::size_t N>
requires Element<std::remove_const_t<T>> &&
    (!std::same_as<std::remove_const_t<T>, bool>)std::vector<std::remove_const_t<T>> alltoall(
        std::span<T, N> input, std::span<const std::size_t> splits, const Options& options = {}) {
  using Value = std::remove_const_t<T>;
  if (splits.size() != static_cast<std::size_t>(options.on.size()))
    throw Error(HVD_ERROR_INVALID_ARGUMENT, "hvd::alltoall: the splits are not one a rank");
  std::vector<Value> output;
  const hvd_options read = detail::with_output(detail::read(options), output);
  detail::check(hvd_alltoall(input.data(), splits.data(), input.size(), 1,
                             detail::find_type<Value>(), nullptr, 0, nullptr, &read));
  return output;
}

// A collective in the background. The destructor waits for it if wait() was not called, and ignores
// its error.
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

  // Returns whether the collective is done, without waiting.
  bool done() const {
    int answer = 0;
    detail::check(hvd_poll(handle_, &answer));
    return answer != 0;
  }
  // Waits until the collective is done. Throws if it failed. Call it at most once.
  void wait() { detail::check(hvd_wait(std::exchange(handle_, 0))); }

 private:
  hvd_handle handle_;
};

// Starts a reduction in place in the background. The values must stay until it is done.
template <Element T, std::size_t N>
[[nodiscard]] Handle allreduce_async(std::span<T, N> values, Op op, const Options& options = {}) {
  const hvd_options read = detail::read(options);
  hvd_handle handle = 0;
  detail::check(hvd_allreduce_async(values.data(), values.data(), values.size(),
                                    detail::find_type<T>(), static_cast<hvd_op>(op), &read,
                                    &handle));
  return Handle(handle);
}

// Starts a broadcast in the background. The values must stay until it is done.
template <Element T, std::size_t N>
[[nodiscard]] Handle broadcast_async(std::span<T, N> values, int root,
                                     const Options& options = {}) {
  const hvd_options read = detail::read(options);
  hvd_handle handle = 0;
  detail::check(hvd_broadcast_async(values.data(), values.size(), detail::find_type<T>(), root,
                                    &read, &handle));
  return Handle(handle);
}

// An array in memory that the other ranks of the host can access, so collectives need not copy it
// (hvd_alloc). The elements are zero at first. Can be made only after hvd::init().
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

// Shares pages of the program with the other ranks of the host, like those of a Buffer, until it is
// destroyed (hvd_register). They must be whole pages. No thread may use them in the constructor or
// the destructor.
class Registration {
 public:
  explicit Registration(std::span<std::byte> pages) : memory_(pages.data()) {
    detail::check(hvd_register(memory_, pages.size()));
  }
  Registration(Registration&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Registration() { hvd_unregister(memory_); }

 private:
  std::byte* memory_;
};

// Returns when all ranks have called it. See hvd_barrier.
inline void barrier(const Options& options = {}) {
  const hvd_options read = detail::read(options);
  detail::check(hvd_barrier(&read));
}

// Returns std::cout on rank 0, and on other ranks a stream that drops everything.
inline std::ostream& root_out() {
  thread_local std::ostream nowhere(nullptr);
  return rank() == 0 ? std::cout : nowhere;
}
[[deprecated("the new name is root_out")]] inline std::ostream& rank0() {
  return root_out();
}

// Sets how many training steps are done. See hvd_set_step.
inline void set_step(std::uint64_t step) {
  detail::check(hvd_set_step(step));
}
// Begins an epoch, counted from 0. See hvd_set_epoch.
inline void set_epoch(std::uint64_t epoch) {
  detail::check(hvd_set_epoch(epoch));
}
// Adds samples that this rank trained on. See hvd_add_samples.
inline void add_samples(std::uint64_t samples) {
  detail::check(hvd_add_samples(samples));
}
// Sets a metric of the training, such as "loss" or "accuracy". See hvd_set_metric.
inline void set_metric(const std::string& name, double value) {
  detail::check(hvd_set_metric(name.c_str(), value));
}
// Reports why this rank is about to end. Returns whether the launcher will show it; if not, the
// caller should. Never throws. See hvd_report_failure.
inline bool report_failure(const std::string& text) {
  return hvd_report_failure(text.c_str()) == HVD_OK;
}

// Returns the HVD_NOTICE_ bits that the launcher has set so far. See hvd_notice.
inline std::uint32_t notice() {
  std::uint32_t bits = 0;
  detail::check(hvd_notice(&bits, nullptr));
  return bits;
}

// Returns the seconds until the job must be over; infinity if that is not known. See hvd_time_left.
inline double time_left() {
  double seconds = 0;
  detail::check(hvd_time_left(&seconds));
  return seconds;
}

}  // namespace hvd

#endif  // HVD_HVD_HPP_
