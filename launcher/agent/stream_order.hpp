// In which order a rank has written to its stdout and its stderr. Two pipes do not say so;
// the signals that the kernel sends for each write do (pipe_writes.hpp).
//
// What was written to both pipes is arranged by it, in lines. How many bytes a write had is not
// known. So a line is taken for each event, and the rest for the last event of its pipe. That is
// exact where ranks write whole lines in turns, or a block of lines to one of the pipes.
//
// A signal costs the rank about 0.8 us. So a pipe that has been read kBulk times while the other
// one was empty is not watched until the other one has bytes. Its bytes are then taken for the
// earlier ones. Loop thread of the agent only. Nothing fails: without signals, stdout comes before
// stderr.
#pragma once

#include "agent/pipe_writes.hpp"

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

namespace hvdrun {

class StreamOrder : private PipeWrites::Listener {
 public:
  enum Pipe : unsigned char { kOut = 0, kErr = 1 };
  struct Piece {
    Pipe pipe;
    std::string_view bytes;
  };

  // For tests: knows of no writes but those given to add().
  StreamOrder() = default;
  // Watches the two pipes, of which these are descriptors. They and `signals` must outlive it.
  StreamOrder(PipeWrites& signals, int out, int err);
  ~StreamOrder() override;
  StreamOrder(const StreamOrder&) = delete;
  StreamOrder& operator=(const StreamOrder&) = delete;

  // Takes note of the writes since the last call.
  void update();
  void add(Pipe pipe);

  // Leaves out what the kernel reports of a pipe's end, because it is no write. Call it after
  // update() and before arrange().
  void leave_out_ends();

  static constexpr int kBulk = 64;

  // Forgets all writes, because only this pipe has bytes.
  void only(Pipe pipe);

  // Arranges what was read from the two pipes. Writes for which there are no more bytes are kept
  // for the next call.
  std::vector<Piece> arrange(std::string_view out, std::string_view err);

 private:
  // Writes to one pipe that follow each other.
  struct Writes {
    Pipe pipe;
    int times;
  };

  void on_write(int pipe) override { add(pipe == pipes_[kErr] ? kErr : kOut); }
  void on_lost() override { writes_.clear(); }
  bool has_ended(Pipe pipe) const;
  void watch(Pipe pipe);
  void unwatch(Pipe pipe);

  PipeWrites* const signals_ = nullptr;
  std::array<int, 2> pipes_{-1, -1};
  std::array<bool, 2> watched_{};
  std::array<bool, 2> ended_{};  // and what the kernel reports of it was left out
  std::vector<Writes> writes_;
  Pipe last_only_ = kOut;
  int times_only_ = 0;
};

}  // namespace hvdrun
