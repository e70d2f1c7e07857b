#include "engine/negotiation.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace libhvd {
namespace {

// Proposals begin with this. Then come words of bits for a range of the table, then new names, then
// what the rank sends of its gradients.
struct ProposalHeader {
  std::uint16_t words : 15;  // of bits
  std::uint16_t sends : 1;   // of its gradients
  std::uint16_t names;
  std::uint32_t first_word : 23;  // in the table
  std::uint32_t tuning : 8;       // of rank 0
  std::uint32_t joins : 1;
};
static_assert(sizeof(ProposalHeader) == 8);

constexpr std::size_t kWordBits = 64;
// Names in later slots are proposed by name, so that the bits leave room for names.
constexpr std::size_t kMostWords = 4096;

// Writes the values and returns the position after them.
template <class Value>
std::byte* put(std::byte* at, std::span<const Value> values) {
  if (!values.empty()) std::memcpy(at, values.data(), values.size_bytes());
  return at + values.size_bytes();
}

// Reads a value and removes it from the front.
template <class Value>
Value take(std::span<const std::byte>& from) {
  Value value;
  std::memcpy(&value, from.data(), sizeof value);
  from = from.subspan(sizeof value);
  return value;
}

std::size_t proposal_bytes(std::size_t words, std::size_t names) {
  return sizeof(ProposalHeader) + words * sizeof(std::uint64_t) + names * sizeof(NamedTensor);
}

}  // namespace

Negotiation::Negotiation(int ranks, std::size_t capacity)
    : ranks_(ranks),
      capacity_(capacity),
      words_((static_cast<std::size_t>(ranks) + kWordBits - 1) / kWordBits),
      joined_(static_cast<std::size_t>(ranks), false) {}

std::size_t Negotiation::encode(std::span<const NamedTensor> names, bool joins, std::size_t most,
                                std::vector<std::byte>& proposals, const RoundExtras& extras) {
  const std::size_t sent = extras.gradients == 0 ? 0 : sizeof extras.gradients;
  std::size_t first = kMostWords;  // the first word with bits
  std::size_t end = 0;             // after the last word with bits
  std::size_t encoded = 0;
  new_names_.clear();
  bits_.resize(std::min(slots_.size() / kWordBits + 1, kMostWords));
  for (const NamedTensor& tensor : names) {
    const Index index = by_name_.find(tensor.name);
    const std::size_t word = index / kWordBits;
    if (word < kMostWords && slots_[index].tensor.priority == tensor.priority) {
      const std::size_t low = std::min(first, word);
      const std::size_t high = std::max(end, word + 1);
      if (proposal_bytes(high - low, new_names_.size()) + sent > most) break;
      bits_[word] |= std::uint64_t{1} << index % kWordBits;
      first = low;
      end = high;
    } else {
      const std::size_t words = end > first ? end - first : 0;
      if (proposal_bytes(words, new_names_.size() + 1) + sent > most) break;
      new_names_.push_back(tensor);
    }
    ++encoded;
  }
  if (end == 0) first = 0;
  const auto bits = std::span(bits_).subspan(first, end - first);
  ProposalHeader head{};
  head.words = static_cast<std::uint16_t>(bits.size() & 0x7fffu);
  head.sends = sent != 0 ? 1 : 0;
  head.names = static_cast<std::uint16_t>(new_names_.size());
  head.first_word = static_cast<std::uint32_t>(first) & 0x7fffffu;
  head.tuning = extras.tuning;
  head.joins = joins ? 1 : 0;
  proposals.resize(proposal_bytes(bits.size(), new_names_.size()) + sent);
  std::byte* at = put<ProposalHeader>(proposals.data(), {&head, 1});
  at = put<std::uint64_t>(at, bits);
  at = put<NamedTensor>(at, new_names_);
  if (sent != 0) put<std::uint64_t>(at, {&extras.gradients, 1});
  std::fill(bits.begin(), bits.end(), 0);
  return encoded;
}

bool Negotiation::apply(int rank, std::span<const std::byte> proposals) {
  gradients_ = 0;
  if (proposals.size() < sizeof(ProposalHeader)) return false;
  const auto head = take<ProposalHeader>(proposals);
  const std::size_t sent = head.sends != 0 ? sizeof gradients_ : 0;
  if (sizeof head + proposals.size() != proposal_bytes(head.words, head.names) + sent) return false;
  for (std::size_t word = head.first_word; word < std::size_t{head.first_word} + head.words;
       ++word) {
    for (auto bits = take<std::uint64_t>(proposals); bits != 0; bits &= bits - 1) {
      const std::size_t index = word * kWordBits + static_cast<std::size_t>(std::countr_zero(bits));
      if (index >= slots_.size() || slots_[index].tensor.name == 0) return false;
      note(static_cast<Index>(index), rank);
    }
  }
  for (int i = 0; i < head.names; ++i) {
    const auto tensor = take<NamedTensor>(proposals);
    if (tensor.name == 0) return false;
    note(slot_for(tensor), rank);
  }
  if (sent != 0) gradients_ = take<std::uint64_t>(proposals);
  if (rank == 0) tuning_ = head.tuning;
  if (head.joins != 0 && !joined_[static_cast<std::size_t>(rank)]) {
    joined_[static_cast<std::size_t>(rank)] = true;
    ++joined_count_;
  }
  return true;
}

// The table shrinks only here, because the bits of a round refer to the table before the round.
std::size_t Negotiation::end_round() {
  if (joined_count_ > 0) finish_with_joined();
  // Removes many names at a time, because it looks at all of them.
  if (idle_ <= capacity_ + std::max(capacity_, slots_.size()) / 16) return 0;
  const std::size_t forgotten = idle_ - capacity_;
  forget_oldest();
  return forgotten;
}

void Negotiation::forget_oldest() {
  std::vector<Index> idle;
  for (Index index = 0; index < slots_.size(); ++index) {
    if (slots_[index].proposers == 0 && slots_[index].tensor.name != 0) idle.push_back(index);
  }
  const auto end = idle.begin() + static_cast<std::ptrdiff_t>(idle_ - capacity_);
  std::nth_element(idle.begin(), end, idle.end(),
                   [&](Index a, Index b) { return slots_[a].order < slots_[b].order; });
  std::sort(idle.begin(), end);  // the order of free slots must be the same on all ranks
  for (auto index = idle.begin(); index != end; ++index) {
    by_name_.erase(slots_[*index].tensor.name);
    slots_[*index] = {};
    free_.push_back(*index);
  }
  idle_ = capacity_;
}

std::uint64_t& Negotiation::proposed_word(Index index, int rank) {
  return proposed_by_[index * words_ + static_cast<std::size_t>(rank) / kWordBits];
}

void Negotiation::note(Index index, int rank) {
  Slot& slot = slots_[index];
  if (knows(slot, index, rank)) return;
  if (slot.proposers == 0) {
    --idle_;
    slot.order = ++order_;
  }
  proposed_word(index, rank) |= std::uint64_t{1} << static_cast<std::size_t>(rank) % kWordBits;
  if (++slot.proposers == ranks_) finish(index);
}

// The rank that proposes a name first decides its priority.
Negotiation::Index Negotiation::slot_for(const NamedTensor& tensor) {
  Index& index = by_name_.at(tensor.name);
  if (index == kNone) {
    if (free_.empty()) {
      free_.push_back(static_cast<Index>(slots_.size()));
      slots_.emplace_back();
      proposed_by_.resize(proposed_by_.size() + words_);
    }
    index = free_.back();
    free_.pop_back();
    slots_[index] = {};
    slots_[index].tensor = tensor;
    ++idle_;
  }
  Slot& slot = slots_[index];
  if (slot.proposers == 0) slot.tensor = tensor;
  return index;
}

void Negotiation::finish(Index index) {
  Slot& slot = slots_[index];
  slot.proposers = 0;
  std::fill_n(proposed_by_.begin() + static_cast<std::ptrdiff_t>(index * words_), words_, 0);
  slot.order = ++order_;
  ++idle_;
  const auto sooner = [](std::int32_t priority, const NamedTensor& other) {
    return priority > other.priority;
  };
  if (ready_.empty() || ready_.back().priority >= slot.tensor.priority) {
    ready_.push_back(slot.tensor);
  } else {
    ready_.insert(std::upper_bound(ready_.begin(), ready_.end(), slot.tensor.priority, sooner),
                  slot.tensor);
  }
}

void Negotiation::drop_ready(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) ready_.pop_front();
}

bool Negotiation::knows(const Slot& slot, Index index, int rank) const {
  const std::uint64_t word =
      proposed_by_[index * words_ + static_cast<std::size_t>(rank) / kWordBits];
  return slot.proposers > 0 && (word >> static_cast<std::size_t>(rank) % kWordBits & 1) != 0;
}

void Negotiation::finish_with_joined() {
  std::vector<Index> complete;
  for (Index index = 0; index < slots_.size(); ++index) {
    const Slot& slot = slots_[index];
    bool everywhere = slot.proposers > 0;
    for (int rank = 0; everywhere && rank < ranks_; ++rank)
      everywhere = joined_[static_cast<std::size_t>(rank)] || knows(slot, index, rank);
    if (everywhere) complete.push_back(index);
  }
  std::sort(complete.begin(), complete.end(),
            [&](Index a, Index b) { return slots_[a].order < slots_[b].order; });
  for (const Index index : complete) finish(index);
}

void Negotiation::forget_joined() {
  joined_.assign(joined_.size(), false);
  joined_count_ = 0;
}

std::vector<int> Negotiation::missing(std::uint64_t name) const {
  std::vector<int> ranks;
  const Index index = by_name_.find(name);
  if (index == kNone || slots_[index].proposers == 0) return ranks;
  for (int rank = 0; rank < ranks_; ++rank) {
    if (joined_[static_cast<std::size_t>(rank)]) continue;
    if (!knows(slots_[index], index, rank)) ranks.push_back(rank);
  }
  return ranks;
}

std::optional<int> Negotiation::first_to_propose(std::uint64_t name) const {
  const Index index = by_name_.find(name);
  for (int rank = 0; index != kNone && rank < ranks_; ++rank) {
    if (knows(slots_[index], index, rank)) return rank;
  }
  return std::nullopt;
}

}  // namespace libhvd
