// The collectives of one job (or, in a test, of one set of threads) over a shared segment.
//
// One object a rank, used by one thread at a time. Every call begins with a step in which the ranks
// show each other what they call, together with the first chunk of data. When that does not fit
// together a second step tells them why: it is the same error on all of them, nothing has been
// written, and the next call works. When a rank dies or leaves, the running call and all later ones
// fail with HVD_ERROR_PEER.
//
// Arguments are those of hvd.h, unchecked: what is wrong with them is told to all ranks here.
#pragma once

#include "base/result.hpp"
#include "collective/call.hpp"
#include "collective/call_order.hpp"
#include "collective/hosts_allreduce.hpp"
#include "collective/reduce.hpp"
#include "collective/staging.hpp"
#include "transport/shared_memory.hpp"
#include "transport/step_barrier.hpp"
#include "transport/streams.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

// What must be the same on all ranks for their proposals to mean the same.
struct ProposalSettings {
  std::uint64_t fusion_bytes;
  std::uint64_t cache_capacity;
};

class Communicator {
 public:
  // `rank` has announced itself in the segment. Without streams all data between hosts goes by the
  // bridges; they are there on all ranks or on none.
  Communicator(const std::shared_ptr<Segment>& segment, int rank, StreamLanes streams = {});
  // The same with this memory, which lies in the segment.
  Communicator(const std::shared_ptr<Segment>& segment, int rank,
               std::shared_ptr<SharedMemory> memory);
  // Of process set `set` of the ranks of `all`, from 1, for its engine. There is no other one.
  Communicator(const std::shared_ptr<Segment>& segment, int rank, StreamLanes streams,
               const Communicator& all, std::int32_t set);
  // Another one of this rank, in the other lane, for another thread. There is room for one.
  std::unique_ptr<Communicator> second() const;

  int rank() const { return steps_.rank(); }
  int size() const { return steps_.size(); }
  // What messages call a rank: its number in the job.
  int number(int rank) const { return steps_.segment()->number(rank); }
  bool on_one_host() const { return steps_.on_one_host(); }

  Result<void> allreduce(const void* input, void* output, std::size_t count, hvd_type type,
                         hvd_op op, const CallOptions& options);
  // The same with HVD_ADASUM, of several tensors of so many elements, one after the other.
  Result<void> adasum(const void* input, void* output, std::span<const std::size_t> counts,
                      hvd_type type, const CallOptions& options);
  // Before the allreduces of a group. True: some ranks have joined, and take part in each of its
  // tensors one by one.
  Result<bool> open_group(std::size_t tensors, std::uint64_t hash_of_counts, hvd_type type,
                          hvd_op op, const CallOptions& options);
  Result<void> broadcast(void* buffer, std::size_t count, hvd_type type, int root,
                         const CallOptions& options);
  Result<void> allgather(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                         void* output, std::size_t output_rows, std::size_t* rows_by_rank,
                         const CallOptions& options);
  Result<void> barrier(const CallOptions& options);
  Result<void> reducescatter(const void* input, std::size_t rows, std::size_t row_size,
                             hvd_type type, hvd_op op, void* output, const CallOptions& options);
  Result<void> alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                        std::size_t row_size, hvd_type type, void* output, std::size_t output_rows,
                        std::size_t* received, const CallOptions& options);

  // Says that this rank has nothing more to give. It takes part in one call of the others: in a sum
  // or average with zeros, any other is an error for them. False: that is done. True: all have
  // joined.
  Result<bool> join();
  // The calls in which this rank has taken part, those of the others that it followed too.
  std::uint64_t calls() const { return calls_; }

  // For collectives whose data goes another way: finds out whether all ranks call the same, and
  // waits until it is the call's turn among those of all communicators of the job.
  Result<CallTurn> agree(const Call& call);
  // Why they do not fit together, when all ranks have found that out after agree().
  Error disagree(const Call& call) { return explain(call); }
  std::unique_ptr<DeviceState>& device_state() { return device_state_; }

  // Tells all ranks up to max_proposal_bytes() bytes, and calls `each` with those of all ranks in
  // turn.
  std::size_t max_proposal_bytes() const { return chunks_.bytes; }
  using EachNews = std::function<void(int rank, std::span<const std::byte> bytes)>;
  // Where their settings differ, all ranks get HVD_ERROR_MISMATCH.
  Result<void> exchange_proposals(std::span<const std::byte> own, const ProposalSettings& settings,
                                  const EachNews& each);

  // Waits until another rank is in the next round of exchange_proposals, or `ready`, which is asked
  // again after wake().
  Result<void> wait_for_proposals(const std::function<bool()>& ready);
  void wake() { steps_.wake(); }  // any thread

  // Any thread: ends the wait in which another one is, and all later ones, with an error.
  void interrupt() { steps_.interrupt(); }

  // Memory in which collectives reach this rank's buffers without copying them.
  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }

  // Tells the peers that this rank takes part no more. The last call on the object.
  void leave() { steps_.leave(); }

  // Called every 20 ms or so while a call waits for other ranks, with what was called and how long
  // the wait has lasted. Set it before the first call.
  using WhileWaiting = std::function<void(const std::string& what, std::uint64_t waited_ns)>;
  void on_long_wait(WhileWaiting hook);
  // The ranks that have not come to the running call.
  std::vector<int> absent() const { return steps_.absent(); }
  // Those that have come, but for ranks that have joined: these wait for nothing.
  std::vector<int> waiting() const;
  // Ends the job for all ranks: `rank` is to blame.
  void abort_job(FailureKind kind, int rank) { steps_.abort_job(kind, rank); }

  // Of the call that was made last.
  const CallFacts& facts() const { return facts_; }

  // Any thread: why what the ranks have begun together cannot end, if so.
  std::optional<Failure> find_failure() { return steps_.find_failure(); }

  // Nanoseconds that all calls so far have waited for other ranks.
  std::uint64_t waited_ns() const { return steps_.waited_ns(); }

 private:
  // One rank's communicators of a job have one order for their calls.
  struct Ordered {
    std::shared_ptr<CallOrder> calls;
    std::uint32_t number;  // of the communicator in the job
    bool negotiated;       // a rank makes a call only when all ranks are sure to make it
  };
  Communicator(const std::shared_ptr<Segment>& segment, int rank, int lane,
               std::shared_ptr<SharedMemory> memory, StreamLanes streams, Ordered ordered);

  // An allreduce's buffers, one pair a rank: as told to others, and mapped here.
  struct SharedPair {
    SharedPlace input, output;
  };
  struct BufferPair {
    const std::byte* input;
    std::byte* output;
    // Keep another rank's buffers mapped; null for our own.
    std::shared_ptr<std::byte> input_owner;
    std::shared_ptr<std::byte> output_owner;
  };
  using BufferPairs = std::vector<BufferPair>;

  // Shows the call to the peers and theirs to us, and finds out whether they fit together. The
  // caller has put its first chunk into steps_.mine().
  Result<void> open_call(const Call& call);
  Error explain(const Call& call);
  static Error peer_error(const Call& call, const Failure& failure);
  Result<void> step(const Call& call);
  // What stands beside a rank's header.
  std::byte* own_inline_data();
  const std::byte* inline_data(int rank) const;
  bool alone() const { return size() == 1; }  // then no data moves

  Result<void> broadcast_chunks(const Call& call, std::byte* buffer, std::size_t bytes);
  Result<void> broadcast_on_host(const Call& call, std::byte* buffer, std::size_t bytes);
  Result<void> allreduce_once(const void* input, void* output, std::size_t count, hvd_type type,
                              hvd_op op, const CallOptions& options);
  Result<void> follow(const CallDetails& theirs);
  Result<void> reduce_zeros(const CallDetails& theirs);
  Result<void> combine_adaptively(const void* input, void* output,
                                  std::span<const std::size_t> counts, hvd_type type,
                                  const CallOptions& options, std::byte* slices);
  Result<void> allreduce_inline(const Call& call, const void* input, void* output);
  Result<void> allreduce_small(const Call& call, const void* input, void* output);
  Result<void> allreduce_between_hosts(const Call& call, const std::byte* input, std::byte* output);
  Result<void> allreduce_large(const Call& call, const std::byte* input, std::byte* output);
  Result<void> allreduce_sliced(const Call& call, const std::byte* input, std::byte* output);
  Result<void> allreduce_shared(const Call& call, const BufferPairs& buffers);

  void reduce_slot(const Call& call, const Slots& slots, const std::byte* input, std::byte* result,
                   std::byte* output, std::size_t length);
  // A chunk of memory, aligned for elements of all types.
  std::byte* scratch();

  std::optional<SharedPair> find_shared(const Call& call, const std::byte* input,
                                        const std::byte* output) const;
  std::optional<BufferPairs> map_all(const std::byte* input, std::byte* output);
  // One bit a rank, with the next step.
  void say(bool yes);
  int ranks_that_say_yes() const;

  StepBarrier steps_;
  Chunks chunks_;  // as large as the areas
  std::shared_ptr<SharedMemory> memory_;
  CallFacts facts_;
  StreamLanes streams_;
  std::unique_ptr<HostsAllreduce> between_hosts_;  // with streams
  ReductionOrder order_;
  Ordered ordered_;
  std::vector<const void*> sources_;  // scratch: one pointer a rank
  std::vector<std::byte> scratch_;
  std::uint64_t calls_ = 0;
  const Call* current_ = nullptr;  // the running one
  // The call that the others have made, and that goes on although some ranks have joined.
  std::optional<CallDetails> goes_on_;
  std::unique_ptr<DeviceState> device_state_;  // last: it uses all of the above
};

}  // namespace libhvd
