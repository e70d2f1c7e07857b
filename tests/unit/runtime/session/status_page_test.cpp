#include "session/status_page.hpp"

#include "agent_page.hpp"
#include "common/clock.hpp"
#include "support.hpp"

#include <cmath>

#include <gtest/gtest.h>
#include <unistd.h>

namespace libhvd {
namespace {

TEST(StatusPage, ShowsWhatTheRankDoes) {
  AgentPage agent;
  auto attached = agent.attach();
  ASSERT_TRUE(attached.ok()) << attached.error().message;
  StatusPage& status = *attached;
  EXPECT_EQ(agent.page()->pid, static_cast<std::uint32_t>(::getpid()));
  EXPECT_EQ(agent.page()->attached, 1u);

  status.set_epoch(3, monotonic_ns());
  status.set_step(77, 50);
  status.add_samples(10, 50);
  status.add_samples(5, 50);
  EXPECT_EQ(agent.page()->epoch, 3u);
  EXPECT_EQ(agent.page()->step, 77u);
  EXPECT_EQ(agent.page()->samples, 15u);

  const std::uint64_t before = monotonic_ns();
  status.begin_collective("allreduce", "grad.3", monotonic_ns());
  EXPECT_EQ(agent.page()->collective_active, 1u);
  EXPECT_STREQ(agent.page()->collective_name, "allreduce grad.3");
  EXPECT_GE(agent.page()->collective_start_ns, before);
  EXPECT_EQ(agent.page()->collective_sequence % 2, 0u);
  status.end_collective(true, 100, 40);
  EXPECT_EQ(agent.page()->collective_active, 0u);
  EXPECT_EQ(agent.page()->collectives, 1u);
  EXPECT_EQ(agent.page()->collective_ns, 100u);
  EXPECT_EQ(agent.page()->waiting_ns, 40u);

  status.set_error(std::string(5000, 'e'), true);
  EXPECT_EQ(std::string(agent.page()->error_text), std::string(HVD_STATUS_ERROR_SIZE - 1, 'e'));
  EXPECT_EQ(agent.page()->error_length, HVD_STATUS_ERROR_SIZE - 1);
  EXPECT_EQ(agent.page()->error_sequence, 2u);

  status.set_left(monotonic_ns());
  EXPECT_EQ(agent.page()->attached, 2u);
}

TEST(StatusPage, HoldsTheReasonOfAFailure) {
  AgentPage agent;
  agent.page()->rank_pid = static_cast<std::uint32_t>(::getpid());
  auto page = agent.attach_for_failure();
  ASSERT_TRUE(page.ok()) << page.error().message;
  EXPECT_EQ(agent.page()->attached, 0u) << "the rank has not joined";
  EXPECT_EQ(agent.page()->pid, 0u);
  page->set_failure("Traceback\nValueError: x\n", true, 77);
  EXPECT_STREQ(hvd_status_failure_text(agent.page()), "Traceback\nValueError: x\n");
  EXPECT_EQ(agent.page()->failure_length, 24u);
  EXPECT_EQ(agent.page()->failure_because_of_peer, 1u);
  EXPECT_EQ(agent.page()->failure_ns, 77u);
  EXPECT_EQ(agent.page()->failure_sequence, 2u);

  page->set_failure(std::string(20000, 'a') + "end", false, 78);
  const std::string text = hvd_status_failure_text(agent.page());
  EXPECT_EQ(text.size(), agent.page()->failure_length);
  EXPECT_LT(text.size(), HVD_STATUS_FAILURE_SIZE);
  EXPECT_GT(text.size(), HVD_STATUS_FAILURE_SIZE - 100);
  EXPECT_TRUE(text.ends_with("aend"));
  EXPECT_EQ(agent.page()->failure_because_of_peer, 0u);
}

TEST(StatusPage, RecordsAnExitAfterAnError) {
  AgentPage agent;
  agent.page()->rank_pid = static_cast<std::uint32_t>(::getpid());
  auto page = agent.attach_for_failure();
  ASSERT_TRUE(page.ok()) << page.error().message;
  page->set_failed_exit(true, 77);
  EXPECT_EQ(agent.page()->failure_length, 0u);
  EXPECT_EQ(agent.page()->failure_because_of_peer, 1u);
  EXPECT_EQ(agent.page()->failure_ns, 77u);
  page->set_failure("ValueError: x", false, 78);
  page->set_failed_exit(true, 79);
  EXPECT_EQ(agent.page()->failure_ns, 78u) << "what the program reported is the reason";
  EXPECT_EQ(agent.page()->failure_because_of_peer, 0u);
}

TEST(StatusPage, OnlyTheRankItselfMayReportItsFailure) {
  AgentPage agent;
  const auto own = static_cast<std::uint32_t>(::getpid());
  agent.page()->rank_pid = own + 1;
  const auto refused = agent.attach_for_failure();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().status, HVD_ERROR_FORKED);
  agent.page()->pid = own;  // it has joined: the launcher has started a shell around it
  EXPECT_TRUE(agent.attach_for_failure().ok());
  const auto without = StatusPage::attach_for_failure(test::make_environment({}));
  ASSERT_FALSE(without.ok());
  EXPECT_EQ(without.error().status, HVD_ERROR_UNSUPPORTED);
}

TEST(StatusPage, KeepsTheDurationsOfEpochs) {
  AgentPage agent;
  auto attached = agent.attach();
  ASSERT_TRUE(attached.ok());
  const hvd_status_page& page = *agent.page();
  attached->set_epoch(5, 100);
  attached->add_samples(64, 50);
  EXPECT_EQ(page.epochs_over, 0u);
  attached->set_epoch(5, 150);
  EXPECT_EQ(page.epochs_over, 0u) << "the same epoch continues";
  attached->set_epoch(6, 300);
  EXPECT_EQ(page.epochs_over, 1u);
  EXPECT_EQ(page.epochs[0].epoch, 5u);
  EXPECT_EQ(page.epochs[0].duration_ns, 200u);
  EXPECT_EQ(page.epochs[0].samples, 64u);
  EXPECT_EQ(page.epochs_sequence, 2u);
  for (std::uint64_t epoch = 7; epoch <= 16; ++epoch) {
    attached->add_samples(epoch, 50);
    attached->set_epoch(epoch, 300 + epoch);
  }
  EXPECT_EQ(page.epochs_over, 11u);
  EXPECT_EQ(page.epochs[0].epoch, 15u) << "the latest ones stay";
  EXPECT_EQ(page.epochs[0].samples, 16u);
  EXPECT_EQ(page.epochs[1].epoch, 6u);
}

TEST(StatusPage, HoldsTheProgressOfTheTraining) {
  AgentPage agent;
  auto attached = agent.attach();
  ASSERT_TRUE(attached.ok());
  const hvd_status_page& page = *agent.page();
  attached->set_step(0, 90);
  attached->add_samples(0, 90);
  EXPECT_EQ(page.epoch_begun, 0u);
  EXPECT_EQ(page.first_samples_ns, 0u);
  attached->set_epochs_in_all(20);
  attached->set_steps_in_all(9380);
  attached->set_epoch(0, 100);
  attached->add_samples(64, 110);
  attached->set_step(2, 120);
  attached->add_samples(32, 130);
  EXPECT_EQ(page.epoch_begun, 1u) << "also of epoch 0";
  EXPECT_EQ(page.epochs_in_all, 20u);
  EXPECT_EQ(page.steps_in_all, 9380u);
  EXPECT_EQ(page.first_samples, 64u);
  EXPECT_EQ(page.first_samples_ns, 110u);
  EXPECT_EQ(page.progress_ns, 130u);
}

TEST(StatusPage, KnowsItsEpochWithoutAPage) {
  StatusPage none;
  EXPECT_FALSE(none.is_in_epoch(0));
  none.set_epoch(0, 100);
  EXPECT_TRUE(none.is_in_epoch(0));
  EXPECT_FALSE(none.is_in_epoch(1));
}

TEST(StatusPage, EndsTheLastEpochWhenTheRankLeaves) {
  AgentPage agent;
  auto attached = agent.attach();
  ASSERT_TRUE(attached.ok());
  attached->set_epoch(0, 100);
  attached->set_step(1, 50);
  attached->set_left(400);
  EXPECT_EQ(agent.page()->epochs_over, 1u);
  EXPECT_EQ(agent.page()->epochs[0].duration_ns, 300u);
}

TEST(StatusPage, IgnoresALastEpochWithoutSteps) {
  AgentPage agent;
  auto attached = agent.attach();
  ASSERT_TRUE(attached.ok());
  attached->set_epoch(0, 100);
  attached->set_step(1, 50);
  attached->set_epoch(1, 200);
  attached->set_left(400);
  EXPECT_EQ(agent.page()->epochs_over, 1u);
}

TEST(StatusPage, HoldsMetricsByName) {
  AgentPage agent;
  auto attached = agent.attach();
  ASSERT_TRUE(attached.ok());
  EXPECT_TRUE(attached->set_metric("loss", 2.5).ok());
  EXPECT_TRUE(attached->set_metric("accuracy", 0.5).ok());
  EXPECT_TRUE(attached->set_metric("loss", std::nan("")).ok());
  EXPECT_STREQ(agent.page()->metrics[0].name, "loss");
  EXPECT_TRUE(std::isnan(agent.page()->metrics[0].value));
  EXPECT_STREQ(agent.page()->metrics[1].name, "accuracy");
  EXPECT_EQ(agent.page()->metrics[1].value, 0.5);
  EXPECT_EQ(agent.page()->metrics_sequence % 2, 0u);
  for (const char* name : {"c", "d", "e", "f"}) EXPECT_TRUE(attached->set_metric(name, 1).ok());
  const auto one_too_many = attached->set_metric("g", 1);
  ASSERT_FALSE(one_too_many.ok());
  EXPECT_EQ(one_too_many.error().message, "no room for the metric \"g\": there are 6 others");
  EXPECT_FALSE(attached->set_metric("", 1).ok());
  EXPECT_TRUE(StatusPage().set_metric(std::string(23, 'x'), 1).ok());
  EXPECT_FALSE(StatusPage().set_metric(std::string(24, 'x'), 1).ok());
}

TEST(StatusPage, ReturnsTheAgentsNotices) {
  AgentPage agent;
  auto attached = agent.attach();
  ASSERT_TRUE(attached.ok());
  EXPECT_EQ(attached->notice().bits, 0u);
  EXPECT_TRUE(std::isinf(attached->notice().seconds_left));

  agent.page()->stop_at_step = 120;
  agent.page()->deadline_ns = monotonic_ns() + 3'600'000'000'000;
  agent.page()->notices = HVD_NOTICE_STOP | HVD_NOTICE_TIME_LEFT;
  const Notice notice = attached->notice();
  EXPECT_EQ(notice.bits, HVD_NOTICE_STOP | HVD_NOTICE_TIME_LEFT);
  EXPECT_EQ(notice.stop_at_step, 120u);
  EXPECT_GT(notice.seconds_left, 0.0);
  EXPECT_LE(notice.seconds_left, 3600.0);

  agent.page()->deadline_ns = monotonic_ns() - 1;
  EXPECT_LT(attached->notice().seconds_left, 0.0);
}

TEST(StatusPage, ShowsThePendingAsyncCollective) {
  AgentPage agent;
  auto attached = agent.attach();
  ASSERT_TRUE(attached.ok());
  attached->clear_background(true);
  EXPECT_EQ(agent.page()->background_sequence, 0u) << "there was nothing to clear";
  attached->begin_collective("barrier", nullptr, 5);
  attached->set_background("allreduce", "grad.3", 7, "2,5-7");
  EXPECT_EQ(agent.page()->background_active, 1u);
  EXPECT_STREQ(agent.page()->background_name, "allreduce grad.3");
  EXPECT_STREQ(agent.page()->background_missing, "2,5-7");
  EXPECT_EQ(agent.page()->background_start_ns, 7u);
  EXPECT_STREQ(agent.page()->collective_name, "barrier") << "the two must be independent";
  attached->clear_background(true);
  EXPECT_EQ(agent.page()->background_active, 0u);
  EXPECT_EQ(agent.page()->backgrounds, 1u);
  EXPECT_EQ(agent.page()->background_sequence, 4u);
  EXPECT_EQ(agent.page()->collective_active, 1u);
}

TEST(StatusPage, ShowsWhetherTheLauncherReportsStalls) {
  AgentPage agent;
  auto attached = agent.attach();
  ASSERT_TRUE(attached.ok());
  EXPECT_FALSE(attached->launcher_reports_stalls());
  agent.page()->launcher_duties = HVD_LAUNCHER_TELLS_STALLS;
  EXPECT_TRUE(attached->launcher_reports_stalls());
}

TEST(StatusPage, MayBeMissing) {
  auto attached = StatusPage::attach(test::make_environment({}));
  ASSERT_TRUE(attached.ok());
  EXPECT_FALSE(*attached);
  attached->begin_collective("allreduce", nullptr, monotonic_ns());
  attached->end_collective(true, 1, 1);
  attached->set_background("allreduce", nullptr, 1, "1");
  attached->clear_background(false);
  attached->set_error("no page", false);
  EXPECT_FALSE(attached->launcher_reports_stalls());
  EXPECT_EQ(attached->notice().bits, 0u);
}

TEST(StatusPage, AnInvalidVariableFailsWithItsName) {
  for (const char* text : {"foo", "@0", "/dev/null@", "/dev/null@12", "/dev/null@-4096"}) {
    const auto attached = StatusPage::attach(test::make_environment({{"HVD_STATUS", text}}));
    ASSERT_FALSE(attached.ok()) << text;
    EXPECT_EQ(attached.error().status, HVD_ERROR_ENVIRONMENT) << text;
    EXPECT_NE(attached.error().message.find("HVD_STATUS"), std::string::npos);
  }
}

TEST(StatusPage, LeavesForeignPagesUnchanged) {
  AgentPage agent;
  agent.page()->version = HVD_STATUS_VERSION + 1;
  const auto other_version = agent.attach();
  ASSERT_FALSE(other_version.ok());
  EXPECT_NE(other_version.error().status, HVD_ERROR_ENVIRONMENT);
  EXPECT_EQ(agent.page()->pid, 0u);
  EXPECT_FALSE(
      StatusPage::attach(test::make_environment({{"HVD_STATUS", agent.path() + "@8192"}})).ok());
}

}  // namespace
}  // namespace libhvd
