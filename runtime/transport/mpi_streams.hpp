// Streams over MPI's messages from rank to rank (mpi_plugin.h).
//
// MPI sees memory of ours only, never the caller's: what it was once given, nobody can take back
// from it when a rank is lost, and it may be read or written long after the call has failed. So
// data is copied once on each side, while it is in caches. Whatever comes is taken from MPI in any
// turn, asked for or not, as a sender's message may be on its way only once it is taken.
#pragma once

#include "transport/mpi_courier.hpp"
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
  // `ends`: one for each channel that this rank serves and each other host. Error: there can be no
  // thread.
  static Result<std::shared_ptr<MpiStreams>> start(StreamPlan plan, const MpiLibrary& mpi,
                                                   const std::vector<MpiEnd>& ends);
  ~MpiStreams() override;

  Transport transport() const override { return Transport::mpi; }
  void send(int channel, int host, const void* data, std::size_t bytes) override;
  void receive(int channel, int host, void* data, std::size_t bytes) override;
  void mark() override;
  void call_due() override;
  Lockstep::Turn turn(int most_ms) override;
  // The thread is not there, and must not be waited for.
  void close_in_child() override { in_child_ = true; }

 private:
  struct Link {
    std::size_t index;
    MpiEnd end;
    std::uint64_t told = 0;  // messages since the beginning: told to send, by the mark, due, sent
    std::uint64_t marked = 0;
    std::uint64_t due = 0;
    std::uint64_t sent = 0;
    std::deque<MpiMessage> come = {};
    std::size_t taken = 0;      // bytes of the first of these
    std::deque<iovec> in = {};  // where they are to go
    bool lost = false;

    bool over() const { return in.empty() && sent >= due; }
  };

  MpiStreams(StreamPlan plan, std::shared_ptr<MpiCourier> courier, const std::vector<MpiEnd>& ends);

  Link& link(int channel, int host);
  void take_news(Link& link);
  bool deliver(Link& link);
  Lockstep::Turn progress(bool& moved);

  std::shared_ptr<MpiCourier> courier_;
  std::deque<Link> links_;
  bool in_child_ = false;
};

}  // namespace libhvd
