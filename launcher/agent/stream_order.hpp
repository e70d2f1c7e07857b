// In which order a rank has written to its stdout and its stderr. Two pipes do not say so;
// inotify(7) does: it has an event for each write, and joins those that follow each other in one
// pipe.
//
// What was written to both pipes is arranged by it, in lines. How many bytes a write had is not
// known. So a line is taken for each event, and the rest for the last event of its pipe. That is
// exact where ranks write whole lines in turns, or a block of lines to one of the pipes.
//
// An event costs the rank about 0.5 us. So a pipe that has been read kBulk times while the other
// one was empty is not watched until the other one has bytes. Its bytes are then taken for the
// earlier ones. Loop thread of the agent only. Nothing fails: without inotify, stdout comes before
// stderr.
#pragma once

#include "common/fd.hpp"

#include <array>
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

  static constexpr int kBulk = 64;

  // Forgets all writes, because only this pipe has bytes.
  void only(Pipe pipe);

  // Arranges what was read from the two pipes. Writes for which there are no more bytes are kept
  // for the next call.
  std::vector<Piece> arrange(std::string_view out, std::string_view err);

 private:
  void watch(Pipe pipe);

  common::Fd inotify_;
  std::array<int, 2> pipes_{-1, -1};
  std::array<int, 2> watches_{-1, -1};  // -1: none
  std::vector<Pipe> writes_;            // no pipe twice in a row
  Pipe last_only_ = kOut;
  int times_only_ = 0;
};

}  // namespace hvdrun
