// A large allreduce between hosts. The ranks of a host reduce what they have, each the slices of
// its channels (stream_plan.hpp); of a slice, each host gets a piece from all others and reduces
// it; the results go back the same way, and to all ranks of the host.
//
// It goes stretch by stretch, and the parts of the work overlap: while the pieces of a stretch are
// on their way, a host reduces the next one, and the results of the one before come in. In turn k
//  - ranks of a host show each other stretch k, and reduce their slices of it;
//  - the pieces of stretch k are sent, those of k-1 taken, reduced, and the results sent;
//  - the results of stretch k-2 are taken; the host's other ranks copy them in turn k+1.
//
// Why it cannot hang: in turn k a rank waits for its host's ranks to have begun it, then for what
// other hosts have sent in turn k-1 at the latest, and leaves it when all that it has sent until
// turn k-1 is on its way. So whoever is in the earliest turn of all can end it.
//
// Why nothing is overwritten while it is needed: what a rank shows of stretch k lies in one of two
// places, and the host's ranks have begun turn k+1 when k+2 is written there. Results of stretch k
// lie in one of three: they are copied in turn k+3, and k+3's come in turn k+4. What is sent is on
// its way at the end of the next turn.
#pragma once

#include "collective/call.hpp"
#include "collective/reduction_order.hpp"
#include "collective/stretches.hpp"
#include "transport/lockstep.hpp"
#include "transport/streams.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace libhvd {

// Used by one thread at a time, as the steps and the streams are by this.
class HostsAllreduce {
 public:
  // The segment has staging in each lane, as staging_bytes() says.
  HostsAllreduce(Lockstep& steps, int lane, std::shared_ptr<Streams> streams);

  // In a lane of a host with so many ranks. `channels`: those of the job's StreamPlan.
  static std::size_t staging_bytes(std::size_t local_ranks, int channels);

  // All ranks are in the same call. Output is input, or they lie apart; they need not be aligned.
  // Something: why it has failed.
  std::optional<Failure> run(const Call& call, const std::byte* input, std::byte* output);

 private:
  using Range = Stretches::Range;

  // One call.
  struct Job {
    const Call& call;
    const std::byte* input;
    std::byte* output;
    std::size_t element;  // bytes
    std::size_t held;     // bytes of one between hosts
    Stretches stretches;
  };

  std::optional<Failure> turn(const Job& job, int index);
  void show(const Job& job, int index);
  void begin(const Job& job, int index);
  void begin_slice(const Job& job, int index, std::size_t served);
  std::optional<Failure> take_pieces(const Job& job, int index);
  void finish(const Job& job, int index, std::size_t served);
  std::optional<Failure> take_results(const Job& job, int index);
  void copy_results(const Job& job, int index) const;
  std::optional<Failure> wait();

  bool shares() const { return locals_.size() > 1; }
  bool sends_input(const Job& job) const;
  const std::byte* own_piece(const Job& job, int index, std::size_t served, Range piece);
  const std::byte* aligned_input(const Job& job, Range range);
  std::byte* place_of_result(const Job& job, int index, Range range) const;
  std::byte* shown_by(std::size_t local, int index) const;
  std::byte* results(int index) const;
  std::byte* held_of(const Job& job, int index, std::size_t served, Range range);
  std::byte* taken_from(const Job& job, std::size_t served, int host);

  Lockstep& steps_;
  std::shared_ptr<Streams> streams_;
  const StreamPlan& plan_;
  int host_;
  std::vector<int> locals_;    // the ranks of this host
  std::size_t own_;            // which of these we are
  std::vector<int> channels_;  // those that we serve
  std::size_t stretch_bytes_;
  bool in_two_parts_;
  std::span<std::byte> staging_;

  std::vector<std::byte> held_;     // what is held of our slices of two stretches
  std::vector<std::byte> taken_;    // what has come for our pieces of one
  std::vector<std::byte> aligned_;  // of what is not, in the caller's buffers
  std::vector<const void*> sources_;
};

}  // namespace libhvd
