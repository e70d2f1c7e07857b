// The blocking collectives in C++20. A part of hvd.hpp. Each of them takes part in a collective of
// hvd.h and returns when it is done. hvd.h says what order and which threads the calls need.
// async.hpp has the same collectives in the background.
//
// Lengths are in elements. Values are in host memory, or in GPU memory with Options::memory. A call
// that returns a vector or a value works on host memory only.
#ifndef HVD_COLLECTIVES_HPP_
#define HVD_COLLECTIVES_HPP_

#include "hvd/float16.hpp"
#include "hvd/hvd.h"
#include "hvd/job.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace hvd {

// A reduction; see hvd_op.
enum class Op : hvd_op {
  average = HVD_AVERAGE,
  sum = HVD_SUM,
  adasum = HVD_ADASUM,
  min = HVD_MIN,
  max = HVD_MAX,
  product = HVD_PRODUCT,
};

// Where the values of a collective are: in host memory, or in the memory of one GPU. See HVD_CUDA.
enum class Memory : std::int32_t { host = HVD_HOST, cuda = HVD_CUDA };

// The form in which an allreduce sends its values to other hosts. See HVD_COMPRESSION_NONE ….
enum class Compression : std::int32_t {
  none = HVD_COMPRESSION_NONE,
  float16 = HVD_COMPRESSION_FLOAT16,
  bfloat16 = HVD_COMPRESSION_BFLOAT16,
  int8 = HVD_COMPRESSION_INT8,
};

namespace detail {

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

// The elements of vectors that collectives return: not bool, because std::vector<bool> has no
// elements to write to. Gather bytes instead.
template <class T>
concept VectorElement =
    Element<std::remove_const_t<T>> && !std::same_as<std::remove_const_t<T>, bool>;

// Options of a collective; see hvd_options. A string converts to options with that name.
struct Options {
  Options() = default;
  Options(const char* tensor) : name(tensor) {}
  Options(std::string tensor) : name(std::move(tensor)) {}

  std::string name = {};         // the tensor's; "": no name
  double prescale = 1;           // of allreduce and reducescatter: factor before the reduction
  double postscale = 1;          // and after it
  ProcessSet on = {};            // the ranks that take part
  std::int32_t priority = 0;     // in the background: the largest first
  Memory memory = Memory::host;  // where the values are
  void* stream = nullptr;        // with Memory::cuda: the cudaStream_t of the call
  std::string shape = {};        // the tensor's, "[64, 3]", to find ranks with another; "": none
  Compression compression = Compression::none;  // of allreduce, between hosts
  bool gradients = false;  // computed from this rank's own data, see hvd_options
};

namespace detail {

// Returns the options for the C ABI; `options` must outlive the call.
hvd_options read(Options&&) = delete;
inline hvd_options read(const Options& options) {
  hvd_options read = named(options.name);
  read.prescale = options.prescale;
  read.postscale = options.postscale;
  read.has_factors = 1;
  read.process_set = options.on.id();
  read.priority = options.priority;
  read.memory = static_cast<std::int32_t>(options.memory);
  read.compression = static_cast<std::int32_t>(options.compression);
  read.gradients = options.gradients ? 1 : 0;
  read.stream = options.stream;
  read.shape = options.shape.empty() ? nullptr : options.shape.c_str();
  return read;
}

// Throws an Error with the text.
[[noreturn]] inline void refuse(const std::string& text) {
  throw Error(HVD_ERROR_INVALID_ARGUMENT, text.c_str());
}

// Does what read() does, for a call that returns its result in host memory. A mistake here and
// below becomes the call's fault, because the other ranks wait for this one.
hvd_options read_for_host(Options&&) = delete;
inline hvd_options read_for_host(const Options& options) {
  hvd_options result = read(options);
  if (options.memory != Memory::host)
    result.fault = "values in GPU memory need a span for the output";
  return result;
}

// Returns how many of `count` elements are this rank's part in a reducescatter.
inline std::size_t part_of(std::size_t count, const ProcessSet& on) {
  const auto ranks = static_cast<std::size_t>(on.size());
  return count / ranks + (static_cast<std::size_t>(on.rank()) < count % ranks ? 1 : 0);
}

// Checks that two spans have the same length.
inline void check_lengths(std::size_t input, std::size_t output, hvd_options& options) {
  if (input != output) options.fault = "input and output differ in length";
}

// Checks that the splits are one number for each rank.
inline void check_splits(std::size_t splits, const ProcessSet& on, hvd_options& options) {
  if (splits != static_cast<std::size_t>(on.size()))
    options.fault = "the splits are not one number per rank";
}

// Checks that this rank's part of a reducescatter fits.
inline void check_part(std::size_t part, std::size_t room, hvd_options& options) {
  if (room < part) options.fault = "the output has no room for this rank's part";
}

// The tensors of a group as the C ABI needs them.
template <Element T>
struct Group {
  explicit Group(std::span<const std::span<T>> tensors) {
    for (const std::span<T>& tensor : tensors) {
      inputs.push_back(tensor.data());
      outputs.push_back(tensor.data());
      sizes.push_back(tensor.size());
    }
  }

  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<std::size_t> sizes;
};

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
  hvd_options read = detail::read(options);
  detail::check_lengths(input.size(), output.size(), read);
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
  const hvd_options read = detail::read_for_host(options);
  detail::check(
      hvd_allreduce(&value, &value, 1, detail::find_type<T>(), static_cast<hvd_op>(op), &read));
  return value;
}

// Reduces several tensors in place: all of them, or none. See hvd_grouped_allreduce.
template <Element T>
void grouped_allreduce(std::span<const std::span<T>> tensors, Op op, const Options& options = {}) {
  const hvd_options read = detail::read(options);
  const detail::Group<T> group(tensors);
  detail::check(hvd_grouped_allreduce(tensors.size(), group.inputs.data(), group.outputs.data(),
                                      group.sizes.data(), detail::find_type<T>(),
                                      static_cast<hvd_op>(op), &read));
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
  const hvd_options read = detail::read_for_host(options);
  detail::check(hvd_broadcast(&value, 1, detail::find_type<T>(), root, &read));
  return value;
}

// Returns the values of all ranks, rank 0's first. Ranks may give different numbers of values. See
// hvd_allgather.
template <VectorElement T, std::size_t N>
std::vector<std::remove_const_t<T>> allgather(std::span<T, N> input, const Options& options = {}) {
  using Value = std::remove_const_t<T>;
  std::vector<Value> output;
  const hvd_options read = detail::with_output(detail::read_for_host(options), output);
  detail::check(hvd_allgather(input.data(), input.size(), 1, detail::find_type<Value>(), nullptr, 0,
                              nullptr, &read));
  return output;
}

// Writes the values of all ranks to `output`, rank 0's first, and returns how many each rank gave.
// All ranks get an error if the output of one is too short.
template <Element T, std::size_t N>
std::vector<std::size_t> allgather(std::span<const std::type_identity_t<T>> input,
                                   std::span<T, N> output, const Options& options = {}) {
  const hvd_options read = detail::read(options);
  std::vector<std::size_t> received(static_cast<std::size_t>(options.on.size()));
  detail::check(hvd_allgather(input.data(), input.size(), 1, detail::find_type<T>(), output.data(),
                              output.size(), received.data(), &read));
  return received;
}

// Reduces values, the same number on all ranks, and returns this rank's part of the result. See
// hvd_reducescatter.
template <VectorElement T, std::size_t N>
std::vector<std::remove_const_t<T>> reducescatter(std::span<T, N> input, Op op,
                                                  const Options& options = {}) {
  using Value = std::remove_const_t<T>;
  const hvd_options read = detail::read_for_host(options);
  std::vector<Value> output(detail::part_of(input.size(), options.on));
  detail::check(hvd_reducescatter(input.data(), input.size(), 1, detail::find_type<Value>(),
                                  static_cast<hvd_op>(op), output.data(), &read));
  return output;
}

// Writes this rank's part of the result to `output`, which has room for it and does not overlap the
// input.
template <Element T, std::size_t N>
void reducescatter(std::span<const std::type_identity_t<T>> input, std::span<T, N> output, Op op,
                   const Options& options = {}) {
  hvd_options read = detail::read(options);
  detail::check_part(detail::part_of(input.size(), options.on), output.size(), read);
  detail::check(hvd_reducescatter(input.data(), input.size(), 1, detail::find_type<T>(),
                                  static_cast<hvd_op>(op), output.data(), &read));
}

// Sends splits[r] of the values to rank r, in the order of ranks. Returns the values that this rank
// receives, those from rank 0 first. See hvd_alltoall.
template <VectorElement T, std::size_t N>
std::vector<std::remove_const_t<T>> alltoall(std::span<T, N> input,
                                             std::span<const std::size_t> splits,
                                             const Options& options = {}) {
  using Value = std::remove_const_t<T>;
  std::vector<Value> output;
  hvd_options read = detail::with_output(detail::read_for_host(options), output);
  detail::check_splits(splits.size(), options.on, read);
  detail::check(hvd_alltoall(input.data(), splits.data(), input.size(), 1,
                             detail::find_type<Value>(), nullptr, 0, nullptr, &read));
  return output;
}

// Writes the values that this rank receives to `output`, those from rank 0 first, and returns how
// many came from each rank. All ranks get an error if the output of one is too short.
template <Element T, std::size_t N>
std::vector<std::size_t> alltoall(std::span<const std::type_identity_t<T>> input,
                                  std::span<const std::size_t> splits, std::span<T, N> output,
                                  const Options& options = {}) {
  hvd_options read = detail::read(options);
  detail::check_splits(splits.size(), options.on, read);
  std::vector<std::size_t> received(splits.size());
  detail::check(hvd_alltoall(input.data(), splits.data(), input.size(), 1, detail::find_type<T>(),
                             output.data(), output.size(), received.data(), &read));
  return received;
}

// Returns when all ranks have called it. See hvd_barrier.
inline void barrier(const Options& options = {}) {
  const hvd_options read = detail::read(options);
  detail::check(hvd_barrier(&read));
}

}  // namespace hvd

#endif  // HVD_COLLECTIVES_HPP_
