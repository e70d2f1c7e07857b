// Ranks with a GPU each, for tests: the doubles of CUDA and NCCL.
#pragma once

#include "support.hpp"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <hvd/hvd.h>

namespace libhvd::test {

// What a program does with CUDA itself, without libhvd.
class Gpu {
 public:
  explicit Gpu(int device);

  void* allocate(std::size_t bytes);
  void use(int device);
  void* new_stream();
  // Calls the function on the CPU when the stream has reached it.
  void call(void* stream, void (*function)(void*), void* argument);
  void copy(void* to, const void* from, std::size_t bytes, void* stream = nullptr);
  void synchronize(void* stream = nullptr);
  bool is_idle(void* stream);
  // Returns whether this process has a context on the device.
  bool has_context(int device);

  template <class T>
  T* upload(const std::vector<T>& values, void* stream = nullptr) {
    void* const memory = allocate(values.size() * sizeof(T));
    copy(memory, values.data(), values.size() * sizeof(T), stream);
    synchronize(stream);
    return static_cast<T*>(memory);
  }
  template <class T>
  std::vector<T> download(const T* values, std::size_t count, void* stream = nullptr) {
    std::vector<T> copied(count);
    copy(copied.data(), values, count * sizeof(T), stream);
    synchronize(stream);
    return copied;
  }

 private:
  template <class... Arguments>
  void check(const char* function, Arguments... arguments);

  void* library_;
};

// Blocks a stream until it is opened.
class Gate {
 public:
  Gate(Gpu& gpu, void* stream) { gpu.call(stream, wait, this); }
  void open() { open_ = true; }

 private:
  static void wait(void* gate) {
    while (!static_cast<Gate*>(gate)->open_) std::this_thread::yield();
  }
  std::atomic<bool> open_{false};
};

// Returns options with HVD_CUDA, and otherwise the defaults.
hvd_options on_cuda(const char* name = nullptr, void* stream = nullptr);

// Finds out how often a double does something, in a file of this rank.
class Counter {
 public:
  // `variable` is that of the double, such as HVD_DOUBLE_NCCL_GROUPS.
  explicit Counter(const char* variable);
  // Returns how often it has happened since the last call.
  std::size_t take();

 private:
  std::string file_;
  std::size_t taken_ = 0;
};

// Returns the variables with which libhvd finds the doubles.
std::map<std::string, std::string> doubles();

struct GpuJob {
  int size = 2;
  std::vector<int> devices = {};  // of each rank; empty: the rank's own number
  std::map<std::string, std::string> variables = {};
  // Variables of one rank.
  int odd_rank = -1;
  std::map<std::string, std::string> odd_variables = {};
  std::vector<int> hosts = {};  // of each rank; empty: all on one
};

// Runs the body between hvd_init and hvd_shutdown, in one process per rank. Returns the line of
// each rank, in the order of ranks.
using GpuBody = std::function<std::string(int rank, Gpu& gpu)>;
std::vector<std::string> run_on_gpus(const GpuJob& job, const GpuBody& body);

}  // namespace libhvd::test
