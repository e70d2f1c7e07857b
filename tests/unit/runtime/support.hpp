// Ranks for tests, as threads of this process or as processes of their own.
#pragma once

#include "base/process_environment.hpp"
#include "collective/communicator.hpp"
#include "common/fd.hpp"
#include "connection_pairs.hpp"
#include "temporary_folder.hpp"

#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <hvd/hvd.h>
#include <sys/types.h>

namespace libhvd::test {

// Returns an environment that has just these variables.
Environment make_environment(std::map<std::string, std::string> variables);

// Returns the number of entries in a folder, such as /proc/self/fd.
std::size_t entries_in(const char* folder);

// Returns the number of threads of this process. A joined thread stays in /proc until the kernel
// (or qemu) removes it. So this waits until at most `most` are left, for 5 s at the longest.
std::size_t count_threads(std::size_t most = std::numeric_limits<std::size_t>::max());

// Runs body on `size` threads, each with a communicator of one anonymous segment. They leave when
// the body ends.
void run_ranks(int size, const std::function<void(Communicator&)>& body);
// Does the same in a segment of this shape.
void run_ranks_in(const SegmentShape& shape, const std::function<void(Communicator&)>& body);

// Does the same with ranks on several hosts: hosts[r] is the host of rank r. Each host has a
// separate segment, and bridges connect the hosts over socket pairs.
void run_ranks_on(const std::vector<int>& hosts, const std::function<void(Communicator&)>& body);
// Does the same in segments of this shape. Without streams all data goes through the bridges.
void run_ranks_on(const std::vector<int>& hosts, const SegmentShape& shape, bool streams,
                  const std::function<void(Communicator&)>& body);

// Does the same with connections between hosts that are over TLS if `encrypted`.
void run_ranks_on(const std::vector<int>& hosts, const SegmentShape& shape, bool streams,
                  bool encrypted, const std::function<void(Communicator&)>& body);

using common::test::connect_pair;
using common::test::ConnectionPair;

// Runs the body on one host, then on two in turn (ranks 0, 2, … and 1, 3, …).
void run_ranks_everywhere(int size, const std::function<void(Communicator&)>& body);

// A port of the test: bound but not listened on, so that the ranks can listen.
class ReservedPort {
 public:
  ReservedPort();
  int number() const { return number_; }

 private:
  Fd socket_;
  int number_ = 0;
};

// Returns "ok", or the message of this thread's last error.
std::string text_of(hvd_status status);
// Returns "ok", or the number of the status and the message, such as "7 hvd_init: ...".
std::string code_and_text_of(hvd_status status);
// Returns "ok", or the message of the error.
std::string text_of(const Result<void>& outcome);

// A forked process, which reports to the test line by line.
class Child {
 public:
  // The body gets a function that sends a line to the test. After it the child ends with _exit(0).
  using Report = std::function<void(const std::string&)>;
  explicit Child(const std::function<void(const Report&)>& body);
  Child(Child&&) = default;
  ~Child();

  // Returns the next line; nullopt when the child has ended.
  std::optional<std::string> line();
  void kill();
  void signal(int number);
  pid_t pid() const { return pid_; }
  // Waits for its end. Returns its status as waitpid(2) does.
  int wait();

 private:
  pid_t pid_ = -1;
  Fd pipe_;
  std::string buffer_;
};

// Kills this process and leaves a child that holds all its descriptors, like a data loader. The
// child ends when the test closes the pipe of this process.
[[noreturn]] void die_and_leave_a_child(const Child::Report& report);

// Lets one process of a test wait for another one. Make it before the processes.
class Signal {
 public:
  Signal();
  void notify();  // the process that waits for it, now or later
  void await();

 private:
  Fd read_end_;
  Fd write_end_;
};

// `size` processes that find each other through HVD_RANK, HVD_SIZE and a port of the test. The body
// runs in each after its variables are set; it uses the C ABI.
class Job {
 public:
  using Body = std::function<void(int rank, const Child::Report& report)>;
  Job(int size, const Body& body, const std::map<std::string, std::string>& variables = {});

  // Starts the ranks on several hosts, which are named a, b, …; hosts[r] is the host of rank r.
  // Each host has separate shared memory, and ranks get no variable with their host.
  Job(const std::vector<int>& hosts, const Body& body,
      const std::map<std::string, std::string>& variables = {});

  Child& rank(int rank) { return children_[static_cast<std::size_t>(rank)]; }
  int size() const { return static_cast<int>(children_.size()); }
  const TemporaryFolder& memory(int host = 0) const {
    return memory_[static_cast<std::size_t>(host)];
  }

 private:
  ReservedPort port_;
  std::deque<TemporaryFolder> memory_;  // HVD_SHM_DIR of each host
  std::vector<Child> children_;
};

}  // namespace libhvd::test
