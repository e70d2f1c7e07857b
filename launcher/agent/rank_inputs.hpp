// The ways in which an agent's ranks get input: pipes, and terminals with their keys and sizes.
//
// The agent owns it, on its loop thread. Nothing returns errors: input for a rank that has closed
// its stdin, or that has none, is dropped.
#pragma once

#include "agent/rank_processes.hpp"
#include "agent/stdio_forwarder.hpp"
#include "base/event_loop.hpp"
#include "protocol/link.hpp"
#include "protocol/messages.hpp"
#include "protocol/terminal_messages.hpp"

#include <cstdint>
#include <map>

#include <sys/types.h>

namespace hvdrun {

class RankInputs {
 public:
  // Sends credit for input, and `suspend` frames, over the link. Both arguments must outlive it.
  RankInputs(const EventLoop& loop, Link& link) : loop_(loop), link_(link) {}

  // Takes the pipe and the terminal of a rank, as far as it has them.
  void add(const RankProcess& process, RankPipes& pipes);

  // Takes a frame of input, its end, or a terminal's size. Error: its payload is malformed.
  Result<void> take(const Frame& frame);

  // Returns how much of its input the rank has read. A terminal's, and that of a rank that has none
  // from here, is 0.
  std::uint64_t taken(int rank) const;

  void close_all();

  // Makes the programs that have terminals draw their screens again.
  void ask_to_redraw() const;

 private:
  void write(const InputMessage& input);
  void close(int rank);
  void resize(const WindowMessage& window);

  struct Terminal {
    pid_t rank;
    Fd fd;
  };

  const EventLoop& loop_;
  Link& link_;
  std::map<int, StdinWriter> writers_;  // by rank
  std::map<int, Terminal> terminals_;   // by rank
};

}  // namespace hvdrun
