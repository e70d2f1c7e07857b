// Which way an allreduce goes when there are several hosts.
#pragma once

#include "collective/call.hpp"
#include "collective/reduce.hpp"
#include "transport/failure.hpp"
#include "transport/step_barrier.hpp"
#include "transport/streams.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

// Up to here the bridges bring every rank's data to all hosts, and every rank reduces all of it, in
// one step; what is larger goes by the streams (hosts_allreduce.hpp). `area`: how much a rank shows
// in a step, which is less when there are many ranks.
inline std::size_t most_small_between_hosts(std::size_t area) {
  return std::min<std::size_t>(area, 32 * 1024);
}

// Two ranks, each on a host of its own: from here on the bridges are faster again. Either way as
// much travels; theirs has a thread at each end that only sends and receives.
inline constexpr std::size_t kLargeBytesOfTwoRanks = 4 * 1024 * 1024;

inline bool goes_by_streams(std::size_t bytes, int ranks, std::size_t area, Transport transport) {
  const bool bridges_again =
      transport == Transport::tcp && ranks == 2 && bytes > kLargeBytesOfTwoRanks;
  return bytes > most_small_between_hosts(area) && !bridges_again;
}

// The same in words, for HVD_VERBOSE; `way`: what the connections go over.
inline std::string describe_rule(int ranks, int hosts, int channels, std::size_t area,
                                 Transport transport, const std::string& way) {
  return std::to_string(ranks) + " ranks on " + std::to_string(hosts) +
         " hosts: an allreduce of up to " + std::to_string(most_small_between_hosts(area) / 1024) +
         " KiB goes by the bridges in one step, a larger one is reduced in each host first and "
         "goes "
         "by " +
         std::to_string(channels) + " connections between each two hosts, over " + way +
         (transport == Transport::tcp && ranks == 2 ? ", from 4 MiB on by the bridges again" : "");
}

// How an allreduce between hosts divides its data: into stretches, one after the other; a stretch
// into slices, one a channel; a slice into pieces, one a host. All counts are of elements.

// Bytes of a stretch at most, as its elements are held: what a host works on at a time stays in
// caches.
inline constexpr std::size_t kMostStretchBytes = 512 * 1024;

class Stretches {
 public:
  struct Range {
    std::size_t begin;
    std::size_t count;
  };

  // `element`: bytes of one as it is held. `most_bytes`: of a stretch.
  Stretches(std::size_t count, std::size_t element, int channels, int hosts,
            std::size_t most_bytes = kMostStretchBytes)
      : count_(count),
        hosts_(static_cast<std::size_t>(hosts)),
        pieces_(static_cast<std::size_t>(channels) * hosts_) {
    const std::size_t most = most_bytes / element;
    const std::size_t wanted = std::max(count / kWanted, kLeastStretchBytes / element);
    length_ = std::min(most, std::max<std::size_t>(1, wanted));
  }

  std::size_t most_in_piece() const { return piece_of(length_); }
  std::size_t most_in_slice() const { return std::min(length_, hosts_ * piece_of(length_)); }

  int count() const { return static_cast<int>((count_ + length_ - 1) / length_); }

  Range stretch(int index) const {
    const std::size_t begin = static_cast<std::size_t>(index) * length_;
    return {begin, std::min(length_, count_ - begin)};
  }
  Range slice(int index, int channel) const {
    return pieces(index, static_cast<std::size_t>(channel) * hosts_, hosts_);
  }
  Range piece(int index, int channel, int host) const {
    return pieces(index,
                  static_cast<std::size_t>(channel) * hosts_ + static_cast<std::size_t>(host), 1);
  }

 private:
  // Enough for the parts of the work to overlap, but not so small that each costs more than it
  // brings.
  static constexpr std::size_t kWanted = 4;
  static constexpr std::size_t kLeastStretchBytes = 256 * 1024;
  static constexpr std::size_t kUnit = 64;  // a piece begins in a cache line of its own

  std::size_t piece_of(std::size_t length) const {
    const std::size_t even = (length + pieces_ - 1) / pieces_;
    return (even + kUnit - 1) / kUnit * kUnit;
  }

  Range pieces(int index, std::size_t first, std::size_t count) const {
    const auto [begin, length] = stretch(index);
    const std::size_t size = piece_of(length);
    const std::size_t from = std::min(length, first * size);
    return {begin + from, std::min(length - from, count * size)};
  }

  std::size_t count_;
  std::size_t hosts_;
  std::size_t pieces_;
  std::size_t length_;  // of a stretch
};

// A large allreduce between hosts. The ranks of a host reduce what they have, each the slices of
// its channels (StreamPlan); of a slice, each host gets a piece from all others and reduces
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

// Used by one thread at a time, as the steps and the streams are by this.
class HostsAllreduce {
 public:
  // The segment has staging in each lane, as staging_bytes() says.
  HostsAllreduce(StepBarrier& steps, int lane, std::shared_ptr<Streams> streams);

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

  StepBarrier& steps_;
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
