// Streams over MPI's messages from rank to rank (mpi_plugin.h), for the thread of the streams. A
// thread of its own calls MPI (mpi_progress_thread.hpp).
//
// MPI sees only memory of these streams, never the caller's: what it was once given cannot be taken
// back from it when a rank is lost, and it may read or write it long after the call has failed. So
// data is copied once on each side, while it is in caches. All that arrives is taken from MPI in
// any turn, asked for or not, because a sender's message may be on its way only once it is taken.
#pragma once

#include "base/error.hpp"
#include "transport/mpi_library.hpp"
#include "transport/mpi_progress_thread.hpp"
#include "transport/streams.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <sys/uio.h>

namespace libhvd {

class MpiStreams final : public Streams {
 public:
  // Starts the thread. `ends`: one for each channel that this rank serves and each other host.
  // Error: no thread can be started.
  static Result<std::shared_ptr<MpiStreams>> start(StreamPlan plan, const MpiLibrary& mpi,
                                                   const std::vector<MpiEnd>& ends);
  ~MpiStreams() override;

  void send(int channel, int host, const void* data, std::size_t bytes) override;
  void receive(int channel, int host, void* data, std::size_t bytes) override;
  void mark() override;
  void call_due() override;
  StepBarrier::Turn turn(int most_ms) override;
  // The child has no such thread, so the destructor must not wait for it.
  void close_in_child() override { in_child_ = true; }

 private:
  struct Link {
    std::size_t index;
    MpiEnd end;
    // Messages since the beginning: given to the thread, given before the mark, due, and sent.
    std::uint64_t queued = 0;
    std::uint64_t marked = 0;
    std::uint64_t due = 0;
    std::uint64_t sent = 0;
    std::deque<MpiMessage> received = {};
    std::size_t taken = 0;      // bytes of the first of these
    std::deque<iovec> in = {};  // where the next bytes go
    bool lost = false;

    bool over() const { return in.empty() && sent >= due; }
  };

  MpiStreams(StreamPlan plan, std::shared_ptr<MpiProgressThread> progress,
             const std::vector<MpiEnd>& ends);

  Link& link(int channel, int host);
  void take_progress(Link& link);
  bool deliver(Link& link);
  StepBarrier::Turn progress(bool& moved);

  std::shared_ptr<MpiProgressThread> progress_;
  std::deque<Link> links_;
  bool in_child_ = false;
};

}  // namespace libhvd
