// The collectives of one job (or, in a test, of one set of threads) over a shared segment.
//
// Each rank has one object, used by one thread at a time. Every call begins with a step in which
// the ranks show each other what they call, together with the first chunk of data. If the calls do
// not fit together, a second step shows why: all ranks return the same error, nothing has been
// written, and the next call works. A small broadcast on one host is a post instead: its root does
// not wait, and the other ranks compare their call with the root's only. If that does not fit, they
// return an error at once, and the next call that is not a post is the same error on all ranks.
// When a rank dies or leaves, the running call and all later ones fail with HVD_ERROR_PEER.
//
// Arguments are those of hvd.h, unchecked: a wrong argument of one rank becomes an error on all.
#pragma once

#include "base/error.hpp"
#include "collective/call.hpp"
#include "collective/call_order.hpp"
#include "collective/direct_reads.hpp"
#include "collective/hosts_allreduce.hpp"
#include "collective/posts.hpp"
#include "collective/reduction_order.hpp"
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
#include <utility>
#include <vector>

namespace libhvd {

// Settings on which the meaning of proposals depends. They must be the same on all ranks.
struct ProposalSettings {
  std::uint64_t fusion_bytes;
  std::uint64_t largest_fused_bytes;
  std::uint64_t cache_capacity;
};

// A call whose work on this rank's GPU is not done.
struct DeviceWait {
  std::string kind;            // "allreduce"
  std::string name;            // "" without a name
  std::uint64_t since_ns = 0;  // when it was enqueued, by CLOCK_MONOTONIC
  bool reached = false;        // the GPU has come to it, so it now waits for those of other ranks
};

class Communicator {
 public:
  // `rank` must have announced itself in the segment. Without streams the bridges carry all data
  // between hosts. Either all ranks have streams, or none has. `own`: this rank's memory.
  Communicator(const std::shared_ptr<Segment>& segment, int rank, StreamLanes streams = {},
               std::shared_ptr<ProcessMemory> own = std::make_shared<ProcessMemory>());
  // Does the same without streams, with this memory, which is of this segment.
  Communicator(const std::shared_ptr<Segment>& segment, int rank,
               std::shared_ptr<SharedMemory> memory);
  // Makes the only communicator of a process set, for its engine. `set`: its number, from 1. `all`:
  // the communicator of all ranks.
  Communicator(const std::shared_ptr<Segment>& segment, int rank, StreamLanes streams,
               const Communicator& all, std::int32_t set);
  // Makes another communicator of this rank, in the other lane, for another thread. Call it once.
  std::unique_ptr<Communicator> second() const;

  // Makes reductions add in the order of ranks, whatever hosts these are on (HVD_REPRODUCIBLE).
  // Call it before the first collective and before making other communicators of this one.
  void make_reproducible();

  // Makes this rank move all data through the segment: it reads no memory of others, and they read
  // none of it (HVD_DIRECT_READS=0). Call it when make_reproducible() may be called.
  void refuse_direct_reads() { direct_.refuse(); }
  bool reproducible() const { return reproducible_; }

  int rank() const { return steps_.rank(); }
  int size() const { return steps_.size(); }
  // Returns a rank's number in the job, which messages show.
  int number(int rank) const { return steps_.segment()->number(rank); }
  bool on_one_host() const { return steps_.on_one_host(); }
  const std::shared_ptr<Segment>& segment() const { return steps_.segment(); }

  Result<void> allreduce(const void* input, void* output, std::size_t count, hvd_type type,
                         hvd_op op, const CallOptions& options);
  // Does an allreduce with HVD_ADASUM, for several tensors one after the other. `lengths`: their
  // elements.
  Result<void> adasum(const void* input, void* output, std::span<const std::size_t> lengths,
                      hvd_type type, const CallOptions& options);
  // Begins a group; its allreduces follow. Returns true if some ranks have joined; these take part
  // in each tensor one by one.
  Result<bool> open_group(std::size_t tensors, std::uint64_t hash_of_lengths, hvd_type type,
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

  // Publishes that this rank has no more data, and takes part in one call of the others: with zeros
  // in a sum or average; any other call is an error for them. Returns false after such a call, true
  // when all ranks have joined.
  Result<bool> join();
  // Returns the number of calls in which this rank took part, those of others after join() too.
  std::uint64_t calls() const { return calls_; }

  // Begins a collective whose data is carried elsewhere: compares the ranks' calls, and waits for
  // the call's turn among those of all communicators of the job. Error: the calls do not fit
  // together, or a rank has failed.
  Result<CallTurn> agree(const Call& call);
  // Returns the mismatch that all ranks have found after agree(). All ranks must call it.
  Error disagree(const Call& call) { return explain(call); }
  // Returns whether the allreduce or group that was just refused must be called again, in host
  // memory, because some ranks have joined. These now know for what to give zeros.
  bool continues_with_joined() {
    return std::exchange(call_with_joined_, std::nullopt).has_value();
  }
  std::unique_ptr<DeviceState>& device_state() { return device_state_; }
  // Returns DeviceState::untold_loss(). Call it when no other thread uses the communicator.
  std::optional<Error> untold_loss() const {
    return device_state_ ? device_state_->untold_loss() : std::nullopt;
  }

  // Sends up to max_proposal_bytes() bytes to all ranks, and calls `each` with those of every rank,
  // in the order of ranks.
  std::size_t max_proposal_bytes() const { return chunks_.bytes; }
  using EachProposals = std::function<void(int rank, std::span<const std::byte> bytes)>;
  // Error: HVD_ERROR_MISMATCH on all ranks if their settings differ; a rank has failed.
  Result<void> exchange_proposals(std::span<const std::byte> own, const ProposalSettings& settings,
                                  const EachProposals& each);

  // Waits until another rank is in the next round of exchange_proposals, or `ready` returns true.
  // `ready` is called again after wake(). Error: a rank has failed.
  Result<void> wait_for_proposals(const std::function<bool()>& ready);
  void wake() { steps_.wake(); }  // any thread

  // Ends the wait of another thread, and all later waits, with an error. Any thread.
  void interrupt() { steps_.interrupt(); }

  // Returns the memory of buffers that collectives of other ranks reach without a copy.
  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }

  // Publishes that this rank takes part no more. It must be the last call on the object.
  void leave() { steps_.leave(); }

  // Sets a hook that is called about every 20 ms while a call waits for other ranks. It gets a
  // description of the call and the length of the wait so far. Set it before the first call.
  using WhileWaiting = std::function<void(const std::string& what, std::uint64_t waited_ns)>;
  void on_long_wait(WhileWaiting hook);
  // Sets a hook that is called whenever a call begins to wait longer than for a short spin. Set it
  // before the first call.
  void on_wait(std::function<void()> hook) { steps_.on_wait(std::move(hook)); }
  // Sets a hook that is called about every 20 ms once this rank's GPU takes part in calls. It gets
  // the oldest call that the GPU has not done; nullopt if it has done all. Another thread calls it,
  // until the communicator is destroyed. Set it before the first call.
  using WhileOnDevice = std::function<void(const std::optional<DeviceWait>& oldest)>;
  void on_device_wait(WhileOnDevice hook) { while_on_device_ = std::move(hook); }
  const WhileOnDevice& while_on_device() const { return while_on_device_; }
  // Returns the ranks that have not entered the running call.
  std::vector<int> absent() const { return steps_.absent(); }
  // Returns the ranks that have entered it and wait. Ranks that have joined wait for no other.
  std::vector<int> waiting() const;
  // Ends the job for all ranks, with a failure of `rank`.
  void abort_job(FailureKind kind, int rank) { steps_.abort_job(kind, rank); }

  // Returns the facts of the last call.
  CallFacts facts() const { return facts_of(begun_.header, begun_.count); }

  // Returns why the collectives that the ranks have begun cannot end, or nullopt. Any thread.
  std::optional<Failure> find_failure() { return steps_.find_failure(); }

  // Returns how long all calls so far have waited for other ranks, in ns.
  std::uint64_t waited_ns() const { return steps_.waited_ns(); }

 private:
  // The order of calls, which all communicators of a rank in a job share.
  struct Ordered {
    std::shared_ptr<CallOrder> calls;
    std::uint32_t number;  // of the communicator in the job
    bool negotiated;       // a rank makes a call only when it is certain that all ranks do
  };
  Communicator(const std::shared_ptr<Segment>& segment, int rank, int lane,
               std::shared_ptr<SharedMemory> memory, StreamLanes streams, Ordered ordered);

  // The buffers of an allreduce, a pair for each rank: as published, and as mapped here.
  struct SharedPair {
    SharedLocation input, output;
  };
  struct BufferPair {
    const std::byte* input;
    std::byte* output;
    // Keep another rank's buffers mapped; null for this rank's own.
    std::shared_ptr<std::byte> input_owner;
    std::shared_ptr<std::byte> output_owner;
  };
  using BufferPairs = std::vector<BufferPair>;

  // Publishes the call and compares it with those of the peers. `show` puts the first chunk beside
  // the header and into steps_.mine(). Error: the calls do not fit together, or a rank has failed.
  //
  // `show` runs after the header was made. To make it, the processor reads what it has just written
  // in smaller parts. It waits for all stores before that, and those to the segment take long.
  template <class Show>
  Result<void> open_call(const Call& call, Show show) {
    begin_call(call);
    show();
    return publish_call(call);
  }
  Result<void> open_call(const Call& call) {
    return open_call(call, [] {});
  }
  // The last call that this rank has begun.
  struct BegunCall {
    CallHeader header;    // with the hash of the posts
    std::uint64_t count;  // on this rank
  };
  void begin_call(const Call& call);
  Result<void> publish_call(const Call& call);
  Result<void> broadcast_post(const Call& call, std::byte* buffer, std::size_t bytes);
  // Returns a rank's header of the current step, whether it has posted it or not.
  const CallHeader& header_of(int rank) const;
  // Returns the error of this rank's call of the current step, which does not fit together with a
  // post. Remembers the call for explain().
  Error explain_post(const Call& call, const CallHeader& own, std::span<const int> ranks);
  Error describe_posts(std::span<CallDetails> details) const;
  std::vector<int> all_ranks() const;
  bool is_post(const Call& call) const;
  // Returns why the posts since the last whole step did not fit together, from what all ranks show
  // in explain(); nullopt if they did.
  std::optional<Error> find_wrong_post();
  // Returns why the calls do not fit together. All ranks must call it.
  Error explain(const Call& call);
  // Returns the error of a call that the failure ends. On the rank in which libhvd cannot continue
  // it is no error of a peer.
  Error peer_error(const Call& call, const Failure& failure) const;
  Result<void> step(const Call& call);
  // Return the bytes beside a rank's header, kInlineBytes of them.
  std::byte* own_inline_data() { return steps_.header().bytes + offsetof(StepContents, data); }
  const std::byte* inline_data(int rank) const { return contents_of(steps_.theirs(rank)).data; }
  // Returns whether there are no other ranks, so that no data moves.
  bool alone() const { return size() == 1; }
  // Returns the rank after this one, and rank 0 after the last.
  int next_rank(int rank) const { return rank + 1 < size() ? rank + 1 : 0; }

  // Returns the address at which the others may read this rank's data, or 0 (direct_reads.hpp).
  std::uint64_t offer(const Call& call, const void* data, std::size_t bytes);
  // Waits until all ranks have read what was offered. Returns whether all of them could.
  Result<bool> end_direct_reads(const Call& call, bool could_read);

  Result<void> broadcast_directly(const Call& call, std::uint64_t address, std::byte* buffer,
                                  std::size_t bytes);
  Result<void> broadcast_chunks(const Call& call, std::byte* buffer, std::size_t bytes);
  Result<void> broadcast_on_host(const Call& call, std::byte* buffer, std::size_t bytes,
                                 bool first_is_shown);
  Result<void> allreduce_once(const void* input, void* output, std::size_t count, hvd_type type,
                              hvd_op op, const CallOptions& options);
  Result<void> follow(const CallDetails& theirs);
  Result<void> reduce_zeros(const CallDetails& theirs);
  Result<void> combine_adaptively(const void* input, void* output,
                                  std::span<const std::size_t> lengths, hvd_type type,
                                  const CallOptions& options, std::byte* slices);
  Result<void> allreduce_inline(const Call& call, const void* input, void* output);
  // How a rank's rows of an allgather reach the others.
  enum class GatherWay { beside_header, chunks, direct };
  // The rows of a rank.
  struct GatheredPart {
    std::size_t begin = 0;  // in the output
    std::size_t bytes = 0;
    GatherWay way = GatherWay::beside_header;
    std::uint64_t address = 0;  // of the direct way

    std::size_t bytes_by(GatherWay its) const { return way == its ? bytes : 0; }
  };
  struct Gathering;
  Result<void> gather(const Call& call, const Gathering& gathering);
  Result<void> gather_chunks(const Call& call, const Gathering& gathering, GatherWay way,
                             bool first_is_shown);
  struct RowNumbers;
  Result<void> learn_numbers(Call& call, RowNumbers& numbers, std::size_t row_bytes);
  struct Exchange;
  Result<void> exchange(const Call& call, const Exchange& exchange);
  Result<void> exchange_chunks(const Call& call, const Exchange& exchange, bool offered);
  Result<void> reducescatter_inline(const Call& call, const void* input, std::size_t bytes,
                                    void* output, std::size_t begin, std::size_t length);
  Result<void> allreduce_small(const Call& call, const void* input, void* output);
  Result<void> allreduce_between_hosts(const Call& call, const std::byte* input, std::byte* output,
                                       float* residuals);
  Result<void> allreduce_large(const Call& call, const std::byte* input, std::byte* output);
  Result<void> allreduce_sliced(const Call& call, const std::byte* input, std::byte* output);
  Result<void> allreduce_shared(const Call& call, const BufferPairs& buffers);

  void reduce_slot(const Call& call, const Slots& slots, const std::byte* input, std::byte* output,
                   std::span<std::byte* const> places, std::size_t length);
  // Returns a chunk of memory, aligned for elements of all types.
  std::byte* scratch();

  std::optional<SharedPair> find_shared(const Call& call, const std::byte* input,
                                        const std::byte* output) const;
  std::optional<BufferPairs> map_all(const std::byte* input, std::byte* output);
  // Publishes one bit of this rank with the next step; returns how many ranks published 1.
  void vote(bool yes);
  int count_votes() const;

  StepBarrier steps_;
  Chunks chunks_;  // as large as the areas
  Slots slots_;
  std::shared_ptr<SharedMemory> memory_;
  DirectReads direct_;
  StreamLanes streams_;
  std::unique_ptr<HostsAllreduce> between_hosts_;  // with streams
  ReductionOrder order_;
  bool reproducible_ = false;
  Ordered ordered_;
  // Scratch, kept between calls because allocating it would take longer than a small call.
  std::vector<const void*> sources_;    // one pointer a rank
  std::vector<std::byte*> places_;      // where a result goes
  std::vector<GatheredPart> gathered_;  // of an allgather, by rank
  std::vector<std::size_t> numbers_;    // of an alltoall
  std::vector<std::byte> scratch_;
  std::uint64_t calls_ = 0;
  const Call* current_ = nullptr;  // the running call
  BegunCall begun_{};
  // The headers of the calls since the last whole step, and a hash of them, which is part of the
  // next call's header.
  Posts posts_;
  std::optional<Error> wrong_post_;  // what the last explain() has found
  bool has_joined_before_ = false;   // this rank's call in wrong_post_ was a join
  // The call that the others have made, and that continues although some ranks have joined.
  std::optional<CallDetails> call_with_joined_;
  WhileOnDevice while_on_device_;
  std::unique_ptr<DeviceState> device_state_;  // last: it uses all of the above
};

}  // namespace libhvd
