// A large allreduce between hosts. The ranks of a host reduce their data among themselves: each
// rank reduces the slices of the channels that it serves (StreamPlan). Of each slice a host gets
// one piece from all other hosts and reduces it. The results go back the same way, and to all ranks
// of the host.
//
// It works stretch by stretch (stretches.hpp), and the parts of the work overlap: while the pieces
// of a stretch are on their way, a host reduces the next stretch and receives the results of the
// one before. In turn k
//  - each rank of a host copies stretch k into the staging, and reduces its slices of it;
//  - the pieces of stretch k are sent, those of k-1 are received and reduced, and the results sent;
//  - the results of stretch k-2 are received; the host's other ranks copy them in turn k+1.
//
// Why it cannot hang: in turn k a rank waits until its host's ranks have begun turn k, and for what
// other hosts have sent in turn k-1 at the latest. It ends the turn when all that it sent until
// turn k-1 is on its way. So the rank that is in the earliest turn of all can always end it.
//
// Why nothing is overwritten while it is needed: a rank's input of stretch k is in one of two
// places, and the host's ranks have begun turn k+1 when k+2 is written there. Results of stretch k
// are in one of three places: they are copied in turn k+3, and those of k+3 arrive in turn k+4.
// What is sent is on its way at the end of the next turn.
//
// A compressed call (compression.hpp) sends its pieces and results in compressed form: a partial
// result is then the sum of a host's ranks in float32, multiplied by all factors and divided, so
// that the result is the sum of these. A host keeps its own part of its own piece as it is.
//
// With HVD_REPRODUCIBLE the order of sums is that of ranks. A host with several ranks then sends
// each rank's input instead of a partial result, and the owner of a piece reduces the inputs of
// all.
//
// One thread at a time, the one that uses the steps and the streams. A failure of a rank or a host
// ends it.
#pragma once

#include "collective/call.hpp"
#include "collective/compression.hpp"
#include "collective/stretches.hpp"
#include "transport/failure.hpp"
#include "transport/step_barrier.hpp"
#include "transport/streams.hpp"

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace libhvd {

class HostsAllreduce {
 public:
  // The segment must have staging_bytes() of staging in each lane.
  HostsAllreduce(StepBarrier& steps, int lane, std::shared_ptr<Streams> streams);

  // Returns the staging that a lane of a host with that many ranks needs. `channels`: those of the
  // job's StreamPlan.
  static std::size_t staging_bytes(std::size_t local_ranks, int channels);

  // Reduces. All ranks must be in the same call. The output is the input, or does not overlap with
  // it; neither need be aligned. `residuals`: see compress(); one for each element, or null.
  // Returns nullopt on success, or else why it failed.
  std::optional<Failure> run(const Call& call, const std::byte* input, std::byte* output,
                             float* residuals = nullptr);

 private:
  using Range = Stretches::Range;

  // One call.
  struct Job {
    const Call& call;
    const std::byte* input;
    std::byte* output;
    std::size_t element;          // bytes
    std::size_t partial_element;  // bytes of an element's partial result, between hosts
    Stretches stretches;
    float* residuals;
    bool compressed;
    bool by_inputs;         // each rank's input is sent, instead of a partial result
    std::size_t served;     // how many of this rank's channels are used, the first ones
    std::size_t most_sent;  // bytes of a piece between hosts

    // Returns the bytes of so many elements between hosts: of partial results, and of results.
    std::size_t partial_bytes(std::size_t count) const {
      return compressed ? compressed_bytes(call.compression, count) : count * partial_element;
    }
    std::size_t result_bytes(std::size_t count) const {
      return compressed ? compressed_bytes(call.compression, count) : count * element;
    }
  };
  int channels_for(std::size_t bytes) const;
  Stretches divide(const Call& call, std::size_t partial, bool compressed) const;

  std::optional<Failure> turn(const Job& job, int index);
  void show(const Job& job, int index);
  void begin(const Job& job, int index);
  void begin_slice(const Job& job, int index, std::size_t served);
  void take_sources(const Job& job, int index, Range slice);
  void begin_compressed_slice(const Job& job, Range slice, float* partial);
  const std::byte* compress_piece(const Job& job, int index, std::size_t served, int host,
                                  Range piece);
  void finish_compressed(const Job& job, int index, std::size_t served, Range piece);
  void store(const Job& job, const std::byte* compressed, Range range, std::byte* place);
  std::optional<Failure> take_pieces(const Job& job, int index);
  void finish(const Job& job, int index, std::size_t served);
  std::optional<Failure> take_results(const Job& job, int index);
  void copy_results(const Job& job, int index) const;
  std::optional<Failure> wait();

  // Returns whether this host has several ranks.
  bool shares() const { return locals_.size() > 1; }
  bool sends_input(const Job& job) const;
  void begin_inputs(const Job& job, int index, std::size_t served, Range slice);
  void send_piece(const Job& job, int index, std::size_t served, int host);
  void find_parts(const Job& job, int index, std::size_t served, Range piece);
  const std::byte* own_piece(const Job& job, int index, std::size_t served, Range piece);
  const std::byte* aligned_input(const Job& job, Range range);
  std::byte* result_at(const Job& job, int index, Range range) const;
  std::byte* input_of(std::size_t local, int index) const;
  std::byte* results(int index) const;
  std::byte* partial_of(const Job& job, int index, std::size_t served, Range range,
                        std::size_t local = 0);
  std::byte* received_from(const Job& job, std::size_t served, int source);
  std::byte* sent_piece(const Job& job, int index, std::size_t served, int host);
  std::byte* sent_result(const Job& job, int index, std::size_t served);

  StepBarrier& steps_;
  std::shared_ptr<Streams> streams_;
  const StreamPlan& plan_;
  int host_;
  std::vector<int> locals_;    // the ranks of this host
  std::size_t own_;            // the index of this rank in locals_
  std::vector<int> channels_;  // that this rank serves; `served` is an index in it
  bool in_two_parts_;          // some host has several ranks
  std::size_t stretch_bytes_;
  std::span<std::byte> staging_;

  std::vector<std::byte> partials_;  // partial results of this rank's slices of two stretches
  std::vector<std::byte> received_;  // from other hosts, for this rank's pieces of one stretch
  std::vector<std::byte> aligned_;   // copy of data that is not aligned in the caller's buffers
  std::vector<std::byte> sent_;      // compressed pieces and results of two stretches
  std::vector<const void*> sources_;
};

}  // namespace libhvd
