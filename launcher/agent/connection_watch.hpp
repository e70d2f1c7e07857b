// Finds out whether the ranks of a host communicate over a network. Ranks that never do have
// probably not found each other: each trains alone, and the launcher warns of that.
//
// The agent owns the watch, on its loop's thread. It looks at /proc until it has seen a connection
// or the ranks have joined in another way, and less and less often, because a look takes time. It
// cannot fail: what cannot be read is not seen, except where has_tcp_socket() says otherwise.
//
// A look walks through the kernel's whole table of TCP connections, which takes milliseconds. So
// there is none when a job starts, and none in a job under kShortestExamined.
//
// The kernel lists a connection for a minute after its end, and when it ended. So none at the
// ranks' ports is missed, and one of an earlier job at the same ports is known by its time. One at
// another port is missed if it begins and ends between two looks.
//
// Source: proc(5), /proc/PID/fd, /proc/PID/ns, /proc/PID/net and /proc/PID/maps; the columns of
// /proc/net/tcp are in the kernel's Documentation/networking/proc_net_tcp.rst.
#pragma once

#include "agent/held_ports.hpp"
#include "base/event_loop.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <sys/types.h>

namespace hvdrun {

// A job whose ranks end sooner is not examined, because that would make it longer.
inline constexpr std::chrono::milliseconds kShortestExamined{250};

// How much the kernel's time of a connection's end may differ from ours. Its clock for that counts
// timer interrupts, and these come late while a virtual machine waits for a processor.
inline constexpr std::chrono::milliseconds kClockTolerance{200};

struct UsedLibraries {
  bool tensorflow = false;
  bool mpich = false;     // or an MPI with the ABI of MPICH, such as Intel's
  bool open_mpi = false;  // or another MPI whose ranks find each other by PMIx
};

// Adds the libraries that the process has loaded.
void add_used_libraries(pid_t pid, UsedLibraries& used);

// Returns the libraries of MPI that the program's file names among those that it loads: in its
// first part, where linkers put that list.
UsedLibraries libraries_named_in(const std::string& program);

// Returns how long to wait before the next look at ranks that have run for this long, and will be
// called apart after `left` more. There are ever fewer looks: 18 in the first minute, 18 more in
// the first hour, 14 more in the first day. A join that is missed is seen when the first rank ends.
std::chrono::milliseconds interval_after(std::chrono::milliseconds run,
                                         std::chrono::milliseconds left);

class ConnectionWatch {
 public:
  struct Events {
    // Returns whether the ranks have joined in another way.
    std::function<bool()> joined;
    // The ranks have run for the job's join_time without a sign that they join; for less if they
    // use an MPI that cannot. Called once, and once more if they join later.
    std::function<void()> on_apart;
  };
  ConnectionWatch(const EventLoop& loop, Events events);

  // Begins to look. Call it before the ranks start: connections that were closed before are not
  // theirs. Looks at the ports that this agent holds, and at MASTER_PORT, which another host holds
  // or the user has chosen. Does nothing for a job of one rank.
  void start(const LaunchMessage& job, const std::vector<HeldPort>& held);

  // Looks at the processes below this one, and at the ports.
  void look();

  // Looks if this is the first rank that has ended, because the others may still be connected to
  // it. Does not look before kShortestExamined.
  void rank_ended();

  // Looks at the ports for the last time, or notes that the job was too short for it. Looks also at
  // the program if no rank has joined. Call it when no process is left.
  void finish();

  bool seen() const { return seen_; }

  // Returns whether the job ended before kShortestExamined, so that seen() means nothing.
  bool was_too_short() const { return was_too_short_; }

  // Returns what was seen of the ranks' programs, which may be why they do not join.
  ApartMessage apart() const {
    return {used_.tensorflow && !has_tf_config_, used_.mpich, lacks_pmix(), joined_later_};
  }

 private:
  void on_timer();
  void look_at_ports();
  bool lacks_pmix() const { return used_.open_mpi && !has_pmix_; }
  std::chrono::milliseconds age() const;

  Events events_;
  Timer timer_;  // pending while it looks
  std::chrono::steady_clock::time_point begun_;
  std::set<int> ports_;
  std::string program_;
  bool seen_ = false;
  bool was_too_short_ = false;
  bool has_tf_config_ = false;
  bool has_pmix_ = false;
  UsedLibraries used_;
  std::chrono::milliseconds join_time_{0};
  bool told_ = false;
  bool joined_later_ = false;
  bool rank_has_ended_ = false;
};

// The inodes of all TCP sockets in each network namespace, by the namespace's name. For one look,
// so that a namespace of many processes is read once.
using SocketsByNamespace = std::map<std::string, std::set<std::uint64_t>>;

// Returns whether the process has a TCP socket that is connected. Returns true also if that cannot
// be seen, because the process is another user's or has no /proc/PID/net. Returns false
// if it has ended. Adds the sockets of the process' network namespace to `known`, if it needs them.
bool has_tcp_socket(pid_t pid, SocketsByNamespace& known);

// Returns whether this host has a TCP connection that has one of these ports at either end and may
// be that of a job that began `age` ago: it is open, whichever process has it, or was closed since.
// The kernel measures that in ticks, so it may err by 20 ms.
bool has_connection(const std::set<int>& ports, std::chrono::milliseconds age);

// Returns the same of one line of /proc/net/tcp or /proc/net/tcp6.
bool is_connection(const std::string& line, const std::set<int>& ports,
                   std::chrono::milliseconds age);

}  // namespace hvdrun
