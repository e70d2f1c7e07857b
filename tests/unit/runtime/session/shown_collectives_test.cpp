#include "session/shown_collectives.hpp"

#include "agent_page.hpp"
#include "common/clock.hpp"

#include <gtest/gtest.h>

namespace libhvd {
namespace {

class ShownCollectivesTest : public testing::Test {
 protected:
  ShownCollectivesTest() : attached_(agent_.attach()) {}

  // Makes a quick call that does not wait. Returns whether the page showed it.
  bool call_quickly() {
    shown_.begin_call("allreduce", nullptr, Quick::yes, 0);
    const bool shown = page().collective_active != 0;
    EXPECT_EQ(shown_.shows_call(), shown);
    shown_.end_call(true, 0);
    EXPECT_EQ(page().collective_active, 0u);
    return shown;
  }
  hvd_status_page& page() { return *agent_.page(); }

  AgentPage agent_;
  Result<StatusPage> attached_;
  ShownCollectives shown_{*attached_};
};

TEST_F(ShownCollectivesTest, ALongCallIsShownAtOnce) {
  const std::uint64_t before = monotonic_ns();
  shown_.begin_call("broadcast", "w", Quick::no, 7000);
  EXPECT_EQ(page().collective_active, 1u);
  EXPECT_STREQ(page().collective_name, "broadcast w");
  shown_.show_call();  // it waits, too
  shown_.end_call(true, 7400);
  const std::uint64_t after = monotonic_ns();
  EXPECT_EQ(page().collective_active, 0u);
  EXPECT_EQ(page().collectives, 1u);
  EXPECT_EQ(page().waiting_ns, 400u);
  EXPECT_GE(page().collective_ns, 400u);
  EXPECT_LE(page().collective_ns,
            after - before + 2000);  // the clock's error is 1 us at either end
}

TEST_F(ShownCollectivesTest, AQuickCallIsShownWhenItWaits) {
  shown_.begin_call("allreduce", "loss", Quick::yes, 50);
  EXPECT_EQ(page().collective_sequence, 0u);
  shown_.show_call();
  EXPECT_EQ(page().collective_active, 1u);
  EXPECT_STREQ(page().collective_name, "allreduce loss");
  shown_.end_call(false, 650);
  EXPECT_EQ(page().collective_active, 0u);
  EXPECT_EQ(page().collectives, 0u);  // it has failed
  EXPECT_EQ(page().waiting_ns, 600u);
  EXPECT_GE(page().collective_ns, 600u);
}

TEST_F(ShownCollectivesTest, OneOf61QuickCallsIsMeasuredForAll) {
  int shown = 0;
  for (int call = 0; call < 60; ++call) shown += call_quickly() ? 1 : 0;
  EXPECT_EQ(shown, 0);
  EXPECT_EQ(page().collective_ns, 0u);
  shown_.begin_call("allreduce", nullptr, Quick::yes, 0);
  const std::uint64_t start = page().collective_start_ns;
  EXPECT_EQ(page().collective_active, 1u);
  while (monotonic_ns() < start + 100'000) continue;  // longer than the clock's error
  const std::uint64_t lasted = monotonic_ns() - start;
  shown_.end_call(true, 0);
  EXPECT_GE(page().collective_ns, 61 * (lasted - 2000));
  EXPECT_EQ(page().waiting_ns, 0u);
  for (int call = 0; call < 61; ++call) shown += call_quickly() ? 1 : 0;
  EXPECT_EQ(shown, 1);
}

TEST_F(ShownCollectivesTest, AMeasuredCallThatWaitsRepresentsOnlyItself) {
  for (int call = 0; call < 60; ++call) call_quickly();
  const std::uint64_t before = monotonic_ns();
  shown_.begin_call("allreduce", nullptr, Quick::yes, 0);
  while (monotonic_ns() < before + 100'000) continue;
  shown_.end_call(true, 90'000);
  const std::uint64_t after = monotonic_ns();
  EXPECT_LE(page().collective_ns, after - before + 2000);
  EXPECT_EQ(page().waiting_ns, 90'000u);
}

TEST_F(ShownCollectivesTest, ThePageShowsTheFirstOfSeveralCalls) {
  ASSERT_TRUE(shown_.begin_wait("allreduce", "grad.3"));
  EXPECT_FALSE(shown_.begin_wait("allreduce", "grad.4"));
  shown_.begin_call("barrier", nullptr, Quick::no, 0);
  EXPECT_FALSE(shown_.shows_call());
  EXPECT_STREQ(page().collective_name, "allreduce grad.3");
  shown_.end_call(true, 100);
  EXPECT_EQ(page().collective_active, 1u);
  EXPECT_EQ(page().collectives, 0u);
  shown_.end_wait(true);
  EXPECT_EQ(page().collective_active, 0u);
  EXPECT_EQ(page().collectives, 1u);
  EXPECT_EQ(page().waiting_ns, page().collective_ns);
  shown_.show_call();  // no call is in progress
  EXPECT_EQ(page().collective_active, 0u);
  EXPECT_TRUE(shown_.begin_wait("allreduce", nullptr));
  shown_.end_wait(false);
}

TEST(ShownCollectives, WorkWithoutAPage) {
  StatusPage none;
  ShownCollectives shown(none);
  shown.begin_call("barrier", nullptr, Quick::no, 0);
  shown.show_call();
  EXPECT_FALSE(shown.shows_call());
  shown.end_call(true, 0);
  EXPECT_FALSE(shown.begin_wait("barrier", nullptr));
}

}  // namespace
}  // namespace libhvd
