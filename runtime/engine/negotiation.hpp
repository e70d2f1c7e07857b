// Which collectives the ranks have submitted, and in which order they run.
//
// In a round each rank proposes the names that it has submitted since the last round. All ranks
// apply the same proposals in the same order, so all hold the same state: which names are known,
// which ranks have proposed them, and in which order the names that all ranks have proposed run.
//
// A proposal is a list of names. A name that is known has a slot in a table, and a proposal has a
// bit for it. A name stays in the table after its collective has run, so a step that repeats an
// earlier one is proposed in bits. When the table has too many names, those that were used the
// longest time ago are removed.
//
// A plain value, for one thread at a time.
#pragma once

#include "engine/name_table.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace libhvd {

struct NamedTensor {
  std::uint64_t name = 0;     // its hash
  std::int32_t priority = 0;  // of the ready ones, the largest runs first
};

// What a rank sends with its proposals, beside the names.
struct RoundExtras {
  std::uint8_t tuning = 0;      // what rank 0 wants tuning() to be (autotune.hpp)
  std::uint64_t gradients = 0;  // what the rank sends of them (equal_gradients.hpp); 0: nothing
};

class Negotiation {
 public:
  // `capacity`: about how many names stay in the table after their collectives have run.
  Negotiation(int ranks, std::size_t capacity);

  // Writes this rank's proposals for a round, at most `most` bytes (64 or more): whether it joins,
  // and as many of the names as there is room for, from the front. Returns how many.
  std::size_t encode(std::span<const NamedTensor> names, bool joins, std::size_t most,
                     std::vector<std::byte>& proposals, const RoundExtras& extras = {});

  // Applies the proposals of `rank`. Call it for all ranks in ascending order. Returns false if the
  // proposals are malformed.
  bool apply(int rank, std::span<const std::byte> proposals);
  // Ends the round, after the proposals of all ranks were applied. Returns how many names it has
  // removed from the table.
  std::size_t end_round();
  // Returns what rank 0 sent as `tuning` in the last round.
  std::uint8_t tuning() const { return tuning_; }
  // Returns what the rank of the last apply() has sent of its gradients; 0: nothing.
  std::uint64_t gradients() const { return gradients_; }
  // Returns whether the name is in the table.
  bool remembers(std::uint64_t name) const { return by_name_.find(name) != kNone; }

  // Returns the names that each rank has proposed (or joined instead), in the order in which they
  // run.
  const std::deque<NamedTensor>& ready() const { return ready_; }
  // Removes the first `count` names.
  void drop_ready(std::size_t count);

  bool any_joined() const { return joined_count_ > 0; }
  bool has_joined(int rank) const {
    return rank < ranks_ && joined_[static_cast<std::size_t>(rank)];
  }
  // Returns whether all ranks have joined and nothing is left to run.
  bool all_joined() const { return joined_count_ == ranks_ && ready_.empty(); }
  void forget_joined();

  // Returns the ranks that have neither proposed the name nor joined; none if no rank has proposed
  // it.
  std::vector<int> missing(std::uint64_t name) const;
  // Returns the lowest rank that has proposed the name, even if it has joined since; nullopt if no
  // rank has.
  std::optional<int> first_to_propose(std::uint64_t name) const;

 private:
  using Index = NameTable::Value;
  static constexpr Index kNone = NameTable::kNone;

  struct Slot {
    NamedTensor tensor;
    int proposers = 0;        // ranks that have proposed it; 0: not in flight
    std::uint64_t order = 0;  // when it was first proposed or, not in flight, when it became ready
  };

  // Records that a rank has proposed the name in this slot.
  void note(Index index, int rank);
  // Returns whether the rank has proposed it.
  bool knows(const Slot& slot, Index index, int rank) const;
  // Returns the slot of a name; a new name gets one, which is not in flight yet.
  Index slot_for(const NamedTensor& tensor);
  // Makes the name in this slot ready.
  void finish(Index index);
  void finish_with_joined();
  // Removes the names that were used the longest time ago.
  void forget_oldest();
  std::uint64_t& proposed_word(Index index, int rank);

  int ranks_;
  std::size_t capacity_;
  std::size_t words_;  // of 64 ranks

  std::vector<Slot> slots_;
  std::vector<std::uint64_t> proposed_by_;  // a bit for each rank, `words_` words for each slot
  std::vector<Index> free_;
  NameTable by_name_;
  std::uint64_t order_ = 0;
  std::size_t idle_ = 0;  // slots with a name that is not in flight

  std::deque<NamedTensor> ready_;
  std::vector<bool> joined_;
  int joined_count_ = 0;
  std::uint8_t tuning_ = 0;
  std::uint64_t gradients_ = 0;

  // Scratch of encode().
  std::vector<std::uint64_t> bits_;
  std::vector<NamedTensor> new_names_;
};

}  // namespace libhvd
