#include "job/slots.hpp"

#include <string>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using LeftOut = Slots::LeftOut;

Slots::Slot slot(std::size_t host, int number) {
  Slots::Slot slot;
  slot.host = host;
  slot.place.local_rank = number;
  return slot;
}

// Returns slots as "host/number".
std::string text(const std::vector<Slots::Slot>& slots) {
  std::string line;
  for (const auto& each : slots)
    line += (line.empty() ? "" : " ") + std::to_string(each.host) + "/" +
            std::to_string(each.place.local_rank);
  return line;
}

// Four slots on each of two hosts; the last is free.
Slots slots_of_two_hosts() {
  Slots slots;
  for (const std::size_t host : {0, 1})
    for (int number = 0; number < 4; ++number) slots.add(slot(host, number), number < 3);
  return slots;
}

TEST(JobSlots, AreFreeWhenTheirProcessHasEnded) {
  auto slots = slots_of_two_hosts();
  EXPECT_EQ(text(slots.free()), "0/3 1/3");
  EXPECT_EQ(slots.end(1, 0, true), LeftOut::nothing);
  EXPECT_EQ(text(slots.free()), "0/3 1/0 1/3");
  slots.take(1, 0);
  slots.take(0, 3);
  EXPECT_EQ(text(slots.free()), "1/3");
}

TEST(JobSlots, AreLeftOutAfterThreeProcessesThatCommittedNothing) {
  auto slots = slots_of_two_hosts();
  for (const bool committed : {false, false, true, false, false})
    EXPECT_EQ(slots.end(0, 1, committed), LeftOut::nothing);
  EXPECT_EQ(slots.end(0, 1, false), LeftOut::slot);
  EXPECT_EQ(text(slots.free()), "0/3 1/3");
  EXPECT_EQ(text(slots.all()), "0/0 0/2 0/3 1/0 1/1 1/2 1/3");
}

TEST(JobSlots, OfAHostAreLeftOutWithTheThird) {
  auto slots = slots_of_two_hosts();
  for (int number = 0; number < 3; ++number)
    for (int time = 0; time < 3; ++time)
      EXPECT_EQ(slots.end(0, number, false), time < 2     ? LeftOut::nothing
                                             : number < 2 ? LeftOut::slot
                                                          : LeftOut::host);
  EXPECT_EQ(text(slots.all()), "1/0 1/1 1/2 1/3");
  EXPECT_EQ(slots.end(0, 3, false), LeftOut::nothing) << "it is said once";
}

TEST(JobSlots, AForgivenSlotIsLeftOutAfterThreeMore) {
  Slots slots;
  slots.add({0, {}}, true);
  for (int round = 0; round < 2 * kMostFailuresInSlot; ++round) {
    EXPECT_EQ(slots.end(0, 0, false), Slots::LeftOut::nothing);
    slots.forgive(0, 0);
  }
  EXPECT_EQ(slots.free().size(), 1u);
}

}  // namespace
}  // namespace hvdrun
