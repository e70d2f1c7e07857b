#include "job/slots.hpp"

#include <algorithm>

namespace hvdrun {

void Slots::add(Slot slot, bool taken) {
  const std::pair key(slot.host, slot.place.local_rank);
  entries_[key] = {std::move(slot), taken, false, 0};
}

std::vector<Slots::Slot> Slots::free() const {
  std::vector<Slot> slots;
  for (const auto& [key, entry] : entries_)
    if (!entry.taken && !entry.left_out) slots.push_back(entry.slot);
  return slots;
}

std::vector<Slots::Slot> Slots::all() const {
  std::vector<Slot> slots;
  for (const auto& [key, entry] : entries_)
    if (!entry.left_out) slots.push_back(entry.slot);
  return slots;
}

Slots::LeftOut Slots::end(std::size_t host, int number, bool committed) {
  auto& ended = entry(host, number);
  ended.taken = false;
  ended.failures = committed ? 0 : ended.failures + 1;
  if (ended.left_out || ended.failures < kMostFailuresInSlot) return LeftOut::nothing;
  ended.left_out = true;
  const auto is_of_host = [host](const auto& each) { return each.first.first == host; };
  const auto left_out = std::ranges::count_if(
      entries_, [&](const auto& each) { return is_of_host(each) && each.second.left_out; });
  const auto all = std::ranges::count_if(entries_, is_of_host);
  if (left_out < kMostSlotsLeftOut || left_out == all) return LeftOut::slot;
  for (auto& [key, each] : entries_)
    if (key.first == host) each.left_out = true;
  return LeftOut::host;
}

}  // namespace hvdrun
