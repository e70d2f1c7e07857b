// In which order a rank has written to its stdout and its stderr. Two pipes do not say so;
// inotify(7) does: it has an event for each write, and joins those that follow each other in one
// pipe.
//
// What was written to both pipes is arranged by it, in lines. How many bytes a write had is not
// known. So a line is taken for each event, and the rest for the last event of its pipe. That is
// exact where ranks write whole lines in turns, or a block of lines to one of the pipes. Loop
// thread of the agent only. Nothing fails: without inotify, stdout comes before stderr.
#pragma once

#include "common/fd.hpp"

#include <cstddef>
#include <string_view>
#include <vector>

namespace hvdrun {

class StreamOrder {
 public:
  enum Pipe : unsigned char { kOut = 0, kErr = 1 };
  struct Piece {
    Pipe pipe;
    std::string_view bytes;
  };

  // For tests: knows of no writes but those given to add().
  StreamOrder() = default;
  // Watches the two pipes, of which these are descriptors.
  StreamOrder(int out, int err);

  // Takes note of the writes since the last call.
  void update();
  void add(Pipe pipe);

  // Forgets all writes, because the pipes are empty.
  void clear() { writes_.clear(); }

  // Arranges what was read from the two pipes. Writes for which there are no more bytes are kept
  // for the next call.
  std::vector<Piece> arrange(std::string_view out, std::string_view err);

 private:
  common::Fd inotify_;
  int watch_of_err_ = -1;
  std::vector<Pipe> writes_;  // no pipe twice in a row
};

}  // namespace hvdrun
