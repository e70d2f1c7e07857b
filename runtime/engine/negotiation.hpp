// Numbers by the hash of a name: what std::unordered_map would do, but with one cache line a look.
//
// Open addressing with linear probing (Knuth, The Art of Computer Programming, volume 3, section
// 6.4, algorithms L and R). The keys are hashes already, never 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

namespace libhvd {

class NameTable {
 public:
  using Value = std::uint32_t;
  static constexpr Value kNone = ~Value{0};

  // kNone: the name is not there.
  Value find(std::uint64_t name) const { return places_[place_of(name)].value; }

  // The name's value, kNone when it is new; that is for the caller to replace before the next call.
  Value& at(std::uint64_t name);

  void erase(std::uint64_t name);

 private:
  struct Place {
    std::uint64_t name = 0;  // 0: free
    Value value = kNone;
  };

  std::size_t home_of(std::uint64_t name) const { return name & (places_.size() - 1); }
  std::size_t after(std::size_t place) const { return (place + 1) & (places_.size() - 1); }

  // Where the name is, or would be put.
  std::size_t place_of(std::uint64_t name) const {
    std::size_t place = home_of(name);
    while (places_[place].name != name && places_[place].name != 0) place = after(place);
    return place;
  }

  void grow();

  std::vector<Place> places_ = std::vector<Place>(16);  // a power of two, at most half in use
  std::size_t used_ = 0;
};

// What the ranks have told each other of what they have submitted, and what follows from it.
//
// All ranks hold the same, as all hear the same in the same order: which names are known, by which
// ranks, and in which order those are carried out that all have submitted. What a rank tells in a
// round is a list of names; a name that is known stands in a table, and is told by a bit. A name
// stays in the table after it was carried out, so that a step which repeats another one is told in
// bits; those that were used the longest time ago go when there are too many.

// A name, by its hash, and how soon it is to be carried out: the largest first.
struct NamedTensor {
  std::uint64_t name = 0;
  std::int32_t priority = 0;
};

class Negotiation {
 public:
  // `capacity`: so many names stay in the table after they were carried out, or a few more.
  Negotiation(int ranks, std::size_t capacity);

  // Into `proposals`, at most `most` bytes of it: that this rank joins, if so, and as many of the
  // names as there is room for, from the front. Returns how many. `most` is at least 64.
  std::size_t encode(std::span<const NamedTensor> names, bool joins, std::size_t most,
                     std::vector<std::byte>& proposals);

  // What `rank` tells in this round; ranks in ascending order. False: it makes no sense.
  bool apply(int rank, std::span<const std::byte> proposals);
  // All ranks were heard.
  void end_round();

  // Names that all ranks have submitted or joined instead, in the order in which to carry them out.
  const std::deque<NamedTensor>& ready() const { return ready_; }
  void drop_ready(std::size_t count);

  bool somebody_joined() const { return joined_count_ > 0; }
  bool has_joined(int rank) const {
    return rank < ranks_ && joined_[static_cast<std::size_t>(rank)];
  }
  // All have joined, and nothing is left to carry out.
  bool all_joined() const { return joined_count_ == ranks_ && ready_.empty(); }
  void forget_joined();

  // Ranks that have neither told of a name nor joined; none when nobody has told of it.
  std::vector<int> missing(std::uint64_t name) const;
  // The lowest rank that has told of it, and perhaps joined since.
  std::optional<int> first_to_tell(std::uint64_t name) const;

 private:
  using Index = NameTable::Value;
  static constexpr Index kNone = NameTable::kNone;

  struct Slot {
    NamedTensor tensor;
    int told = 0;             // ranks that have; 0: not in flight
    std::uint64_t order = 0;  // of the first telling, or of its end
  };

  // A rank told of the name in this slot.
  void note(Index index, int rank);
  bool knows(const Slot& slot, Index index, int rank) const;
  Index slot_for(const NamedTensor& tensor);
  void finish(Index index);
  void finish_with_joined();
  void forget_oldest();
  std::uint64_t& told_word(Index index, int rank);

  int ranks_;
  std::size_t capacity_;
  std::size_t words_;  // of 64 ranks

  std::vector<Slot> slots_;
  std::vector<std::uint64_t> told_by_;  // `words_` a slot, a bit a rank
  std::vector<Index> free_;
  NameTable by_name_;
  std::uint64_t order_ = 0;
  std::size_t idle_ = 0;  // slots with a name that is not in flight

  std::deque<NamedTensor> ready_;
  std::vector<bool> joined_;
  int joined_count_ = 0;

  // Scratch, for what is told next.
  std::vector<std::uint64_t> bits_;
  std::vector<NamedTensor> new_names_;
};

}  // namespace libhvd
