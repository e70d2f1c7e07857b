#include "agent/use_watch.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

constexpr std::uint64_t kUseSecond = 1'000'000'000;
constexpr std::uint64_t kUseBegin = 100 * kUseSecond;

std::map<pid_t, ProcessUse> used(double first, double second) {
  return {{7, {.processes = 1, .cpu_seconds = first}},
          {9, {.processes = 3, .cpu_seconds = second}}};
}

GpuUse gpu(std::optional<double> busy_percent) {
  GpuUse use;
  use.now.busy_percent = busy_percent;
  return use;
}

TEST(UseWatch, HasTheProcessorTimeBetweenTwoLooks) {
  UseWatch watch;
  watch.begin(kUseBegin);
  watch.look(used(2, 1), {}, kUseBegin + 4 * kUseSecond);
  EXPECT_DOUBLE_EQ(watch.use()->cores, 0.75);
  watch.look(used(2, 16), {}, kUseBegin + 9 * kUseSecond);
  EXPECT_DOUBLE_EQ(watch.use()->cores, 3);
  watch.look({{7, {.processes = 1, .cpu_seconds = 5}}}, {}, kUseBegin + 10 * kUseSecond);
  EXPECT_DOUBLE_EQ(watch.use()->cores, 3) << "one rank has ended";
  watch.look({{7, {.processes = 1, .cpu_seconds = 1}}}, {}, kUseBegin + 11 * kUseSecond);
  EXPECT_DOUBLE_EQ(watch.use()->cores, 0) << "a child that was counted has gone";
}

TEST(UseWatch, AddsUpTheGpusThatSayHowBusyTheyAre) {
  UseWatch watch;
  watch.begin(kUseBegin);
  watch.look({}, {gpu(75), gpu(std::nullopt), gpu(50)}, kUseBegin + kUseSecond);
  EXPECT_EQ(watch.use(), (UseNow{.cores = 0, .gpus = 2, .gpus_busy = 1.25}));
}

TEST(UseWatch, LooksRarely) {
  UseWatch watch;
  watch.begin(kUseBegin);
  EXPECT_EQ(watch.use(), std::nullopt);
  EXPECT_FALSE(watch.is_due(kUseBegin + 2 * kUseSecond)) << "short jobs need no look";
  EXPECT_TRUE(watch.is_due(kUseBegin + 4 * kUseSecond));
  watch.look(used(1, 1), {}, kUseBegin + 4 * kUseSecond);
  EXPECT_FALSE(watch.is_due(kUseBegin + 8 * kUseSecond));
  EXPECT_TRUE(watch.is_due(kUseBegin + 10 * kUseSecond));
}

}  // namespace
}  // namespace hvdrun
