// Ranks for tests: as threads of this process, or as processes of their own.
#pragma once

#include "base/process_environment.hpp"
#include "collective/communicator.hpp"
#include "common/fd.hpp"
#include "connection_pairs.hpp"

#include <array>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

namespace libhvd::test {

// An environment that holds just these variables.
Environment make_environment(std::map<std::string, std::string> variables);

// The number of entries in a folder, such as /proc/self/fd.
std::size_t entries_in(const char* folder);

// The threads of this process. A joined one stays in /proc for a moment, until the kernel (or qemu)
// has done with it: this looks until there are at most so many, for 5 s at the longest.
std::size_t count_threads(std::size_t most = std::numeric_limits<std::size_t>::max());

// Runs body on `size` threads, each with a communicator of one anonymous segment. They leave when
// the body ends.
void run_ranks(int size, const std::function<void(Communicator&)>& body);
// The same in a segment of this shape.
void run_ranks_in(const SegmentShape& shape, const std::function<void(Communicator&)>& body);

// The same with ranks on several hosts: hosts[r] is the host of rank r. Each host has a segment of
// its own, and bridges join them over socket pairs.
void run_ranks_on(const std::vector<int>& hosts, const std::function<void(Communicator&)>& body);
// The same in segments of this shape. Without streams all data goes by the bridges.
void run_ranks_on(const std::vector<int>& hosts, const SegmentShape& shape, bool streams,
                  const std::function<void(Communicator&)>& body);

// The same, with whether the connections between hosts are over TLS.
void run_ranks_on(const std::vector<int>& hosts, const SegmentShape& shape, bool streams,
                  bool encrypted, const std::function<void(Communicator&)>& body);

using common::test::connect_pair;
using common::test::ConnectionPair;

// On one host, then on two in turn (ranks 0, 2, … and 1, 3, …).
void run_ranks_everywhere(int size, const std::function<void(Communicator&)>& body);

// A port that stays ours: bound but not listened on, so that the ranks can listen.
class ReservedPort {
 public:
  ReservedPort();
  int number() const { return number_; }

 private:
  Fd socket_;
  int number_ = 0;
};

// A folder of the test's own, removed with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  std::vector<std::string> entries() const;

 private:
  std::string path_;
};

// One forked process. It can tell the test something, line by line.
class Child {
 public:
  // body gets a function that sends a line to the test. The child ends with _exit(0) after it.
  using Tell = std::function<void(const std::string&)>;
  explicit Child(const std::function<void(const Tell&)>& body);
  Child(Child&&) = default;
  ~Child();

  // The next line; nothing when the child has ended.
  std::optional<std::string> line();
  void kill();
  void signal(int number);
  pid_t pid() const { return pid_; }
  // Its status as waitpid(2) gives it.
  int wait();

 private:
  pid_t pid_ = -1;
  Fd pipe_;
  std::string buffer_;
};

// Kills this process and leaves a child that holds all its descriptors, as a data loader does, say.
// That one ends when the test closes the pipe of this process.
[[noreturn]] void die_and_leave_a_child(const Child::Tell& tell);

// What one process of a test tells another one, beside what is tested. Made before the processes.
class Signal {
 public:
  Signal();
  void give();  // to one that waits for it, now or later
  void await();

 private:
  Fd read_end_;
  Fd write_end_;
};

// `size` processes that find each other through HVD_RANK, HVD_SIZE and a port of the test's own.
// body runs in each after its variables are set; it uses the C ABI.
class Job {
 public:
  using Body = std::function<void(int rank, const Child::Tell& tell)>;
  Job(int size, const Body& body, const std::map<std::string, std::string>& variables = {});

  // On several hosts, hosts[r] being that of rank r: each has shared memory of its own, and the
  // ranks are not told which they are on. They are named a, b, ….
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
