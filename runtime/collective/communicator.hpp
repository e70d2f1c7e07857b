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
#include "transport/lockstep.hpp"
#include "transport/shared_memory.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace libhvd {

class Slots;

// What a call says besides its arguments.
struct CallOptions {
  const char* name = nullptr;  // null: none
  Scale scale = {};            // of a reduction
  std::string fault = {};      // what the caller has already found wrong; "": nothing
};

class Communicator {
 public:
  // `rank` has announced itself in the segment.
  Communicator(const std::shared_ptr<Segment>& segment, int rank);
  // Another one of this rank, in the other lane, for another thread. There is room for one.
  std::unique_ptr<Communicator> second() const;

  int rank() const { return steps_.rank(); }
  int size() const { return steps_.size(); }
  bool on_one_host() const { return steps_.on_one_host(); }

  Outcome allreduce(const void* input, void* output, std::size_t count, hvd_type type, hvd_op op,
                    const CallOptions& options);
  Outcome broadcast(void* buffer, std::size_t count, hvd_type type, int root,
                    const CallOptions& options);
  Outcome allgather(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                    void* output, std::size_t output_rows, std::size_t* rows_by_rank,
                    const CallOptions& options);
  Outcome barrier(const CallOptions& options);
  Outcome reducescatter(const void* input, std::size_t rows, std::size_t row_size, hvd_type type,
                        hvd_op op, void* output, const CallOptions& options);
  Outcome alltoall(const void* input, const std::size_t* splits, std::size_t rows,
                   std::size_t row_size, hvd_type type, void* output, std::size_t output_rows,
                   std::size_t* received, const CallOptions& options);

  // Tells all ranks up to kMostNews numbers, and calls `each` with those of all ranks: rank 0's
  // first, each rank's in the order in which it gave them.
  static constexpr std::size_t kMostNews = kChunkBytes / sizeof(std::uint64_t);
  Outcome exchange_news(std::span<const std::uint64_t> own,
                        const std::function<void(std::uint64_t)>& each);

  // Waits until another rank is in the next round of exchange_news, or `ready`, which is asked
  // again after stir().
  Outcome wait_for_news(const std::function<bool()>& ready);
  void stir() { steps_.stir(); }  // any thread

  // Any thread: ends the wait in which another one is, and all later ones, with an error.
  void interrupt() { steps_.interrupt(); }

  // Memory in which collectives reach this rank's buffers without copying them.
  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }

  // Tells the peers that this rank takes part no more. The last call on the object.
  void leave() { steps_.leave(); }

  // Ends the job for all ranks; for a forked child that has called a collective.
  void condemn(FailureKind kind) { steps_.condemn(kind); }

  // Nanoseconds that all calls so far have waited for other ranks.
  std::uint64_t waited_ns() const { return steps_.waited_ns(); }

 private:
  Communicator(const std::shared_ptr<Segment>& segment, int rank, int lane,
               std::shared_ptr<SharedMemory> memory);

  // An allreduce's buffers, one pair a rank: as told to others, and mapped here.
  struct SharedPair {
    SharedPlace input, output;
  };
  struct BufferPair {
    const std::byte* input;
    std::byte* output;
  };
  using BufferPairs = std::vector<BufferPair>;

  // Shows the call to the peers and theirs to us, and finds out whether they fit together. The
  // caller has put its first chunk into steps_.mine().
  Outcome open_call(const Call& call);
  Error explain(const Call& call);
  Outcome step(const Call& call);
  // What stands beside a rank's brief.
  std::byte* own_inline_data();
  const std::byte* inline_data(int rank) const;
  bool alone() const { return size() == 1; }  // then no data moves

  Outcome broadcast_chunks(const Call& call, std::byte* buffer, std::size_t bytes);
  Outcome broadcast_on_host(const Call& call, std::byte* buffer, std::size_t bytes);
  Outcome allreduce_inline(const Call& call, const void* input, void* output);
  Outcome allreduce_small(const Call& call, const void* input, void* output);
  Outcome allreduce_large(const Call& call, const std::byte* input, std::byte* output);
  Outcome allreduce_sliced(const Call& call, const std::byte* input, std::byte* output);
  Outcome allreduce_shared(const Call& call, const BufferPairs& buffers);

  void reduce_slot(const Call& call, const Slots& slots, const std::byte* input, std::byte* output,
                   std::size_t length);

  std::optional<SharedPair> find_shared(const Call& call, const std::byte* input,
                                        const std::byte* output) const;
  std::optional<BufferPairs> map_all(const std::byte* input, std::byte* output);
  // One bit a rank, with the next step.
  void say(bool yes);
  int ranks_that_say_yes() const;

  Lockstep steps_;
  std::shared_ptr<SharedMemory> memory_;
  std::vector<const void*> sources_;  // scratch: one pointer a rank
};

}  // namespace libhvd
