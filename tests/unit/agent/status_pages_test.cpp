// Tests the agent's side of the status page. The tests write what ranks would write.
#include "agent/status_pages.hpp"

#include "../temporary_folder.hpp"

#include <cstdint>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>

namespace hvdrun {
namespace {

// Maps a page as its rank does.
class RanksPage {
 public:
  explicit RanksPage(const StatusPages& pages, std::size_t index) {
    const auto place = pages.location(index);
    const auto at = place.rfind('@');
    const Fd file(::open(place.substr(0, at).c_str(), O_RDWR | O_CLOEXEC));
    page_ = static_cast<hvd_status_page*>(::mmap(nullptr, HVD_STATUS_PAGE_SIZE,
                                                 PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                                                 std::stol(place.substr(at + 1))));
    // As after a rank's first write to each section.
    page_->collective_sequence = page_->background_sequence = page_->error_sequence = 2;
    page_->epochs_sequence = page_->metrics_sequence = page_->failure_sequence = 2;
  }
  ~RanksPage() { ::munmap(page_, HVD_STATUS_PAGE_SIZE); }
  RanksPage(const RanksPage&) = delete;
  RanksPage& operator=(const RanksPage&) = delete;

  hvd_status_page* operator->() { return page_; }
  char* failure_text() { return hvd_status_failure_text(page_); }

 private:
  hvd_status_page* page_;
};

TEST(StatusPages, ShowTheValuesThatTheRankWrites) {
  const TemporaryFolder folder;
  auto pages = StatusPages::create(folder.path(), 3);
  ASSERT_TRUE(pages) << pages.error().message;
  RanksPage page(*pages, 2);
  EXPECT_EQ(page->magic, HVD_STATUS_MAGIC);
  EXPECT_EQ(page->version, HVD_STATUS_VERSION);
  page->step = 42;
  page->epoch = 3;
  page->collective_active = 1;
  page->collective_start_ns = 1;
  std::strcpy(page->collective_name, "allreduce grad.3");
  std::strcpy(page->error_text, "rank 1 has left");

  const auto status = pages->read(2);
  EXPECT_EQ(status.step, 42u);
  EXPECT_EQ(status.epoch, 3u);
  EXPECT_EQ(status.blocking.name, "allreduce grad.3");
  EXPECT_GT(status.blocking.seconds, 0);
  EXPECT_EQ(status.last_error, "rank 1 has left");
  EXPECT_EQ(pages->read(1).step, 0u) << "each rank has a page of its own";

  page->error_sequence = 1;  // the rank died during the write
  EXPECT_EQ(pages->read(2).last_error, "");
}

TEST(StatusPages, ShowTheCollectiveInTheBackground) {
  const TemporaryFolder folder;
  auto pages = StatusPages::create(folder.path(), 1, HVD_LAUNCHER_TELLS_STALLS);
  ASSERT_TRUE(pages) << pages.error().message;
  RanksPage page(*pages, 0);
  EXPECT_EQ(page->launcher_duties, HVD_LAUNCHER_TELLS_STALLS);
  std::strcpy(page->background_name, "allreduce grad.3");
  std::strcpy(page->background_missing, "2,5-7");
  page->background_start_ns = 1;
  EXPECT_EQ(pages->read(0).background.name, "") << "the collective is not active";
  page->background_active = 1;
  const auto status = pages->read(0);
  EXPECT_EQ(status.background.name, "allreduce grad.3");
  EXPECT_EQ(status.background.start_ns, 1u);
  EXPECT_GT(status.background.seconds, 0);
  EXPECT_EQ(status.background_missing, "2,5-7");
  EXPECT_EQ(status.blocking.name, "");
}

TEST(StatusPages, TruncateANameWithoutATerminator) {
  const TemporaryFolder folder;
  auto pages = StatusPages::create(folder.path(), 1);
  ASSERT_TRUE(pages);
  RanksPage page(*pages, 0);
  page->collective_active = 1;
  std::memset(page->collective_name, 'x', HVD_STATUS_NAME_SIZE);
  EXPECT_EQ(pages->read(0).blocking.name.size(), HVD_STATUS_NAME_SIZE);
}

TEST(StatusPages, AskToStopThroughThePageAndTheEventfd) {
  const TemporaryFolder folder;
  auto pages = StatusPages::create(folder.path(), 1);
  ASSERT_TRUE(pages);
  RanksPage page(*pages, 0);
  pollfd waiting{pages->notice_fd(0), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
  pages->ask_to_stop();
  EXPECT_EQ(page->notices, HVD_NOTICE_STOP);
  EXPECT_EQ(page->notice_sequence, 1u);
  EXPECT_EQ(::poll(&waiting, 1, 0), 1);
}

TEST(StatusPages, HaveNoCountersForARankWithoutLibhvd) {
  const TemporaryFolder folder;
  const auto pages = StatusPages::create(folder.path(), 1);
  ASSERT_TRUE(pages) << pages.error().message;
  const RankCounters counters = pages->counters(0);
  EXPECT_FALSE(counters.joined);
  EXPECT_TRUE(counters.epochs.empty());
  EXPECT_TRUE(counters.metrics.empty());
}

TEST(StatusPages, HaveTheFailureOfARank) {
  const TemporaryFolder folder;
  auto pages = StatusPages::create(folder.path(), 2);
  ASSERT_TRUE(pages) << pages.error().message;
  EXPECT_EQ(pages->failure(1).text, "");
  pages->set_pid(1, 4711);
  RanksPage page(*pages, 1);
  EXPECT_EQ(page->rank_pid, 4711u);
  std::strcpy(page.failure_text(), "Traceback\nValueError: x\n");
  EXPECT_FALSE(pages->failure(1).reported);
  page->failure_ns = 1;
  EXPECT_TRUE(pages->failure(1).reported);
  EXPECT_EQ(pages->failure(1).text, "") << "the rank has not set its length yet";
  page->failure_length = 24;
  page->failure_because_of_peer = 1;
  const auto failure = pages->failure(1);
  EXPECT_EQ(failure.text, "Traceback\nValueError: x\n");
  EXPECT_TRUE(failure.because_of_peer);
  EXPECT_TRUE(failure.before_stop);
  EXPECT_GT(failure.seconds_ago, 0);
  EXPECT_EQ(pages->failure(0).text, "");

  pages->ask_to_stop();
  EXPECT_TRUE(pages->failure(1).before_stop);
  page->failure_ns = std::numeric_limits<std::uint64_t>::max();
  EXPECT_FALSE(pages->failure(1).before_stop);
}

TEST(StatusPages, UseMemoryOnlyForTheHeads) {
  const TemporaryFolder folder;
  const auto pages = StatusPages::create(folder.path(), 64);
  ASSERT_TRUE(pages) << pages.error().message;
  struct stat status {};
  ASSERT_EQ(::stat((folder.path() / "status").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 64 * static_cast<off_t>(HVD_STATUS_DISTANCE));
  EXPECT_LE(status.st_blocks * 512, 64 * static_cast<off_t>(2 * HVD_STATUS_HEAD_SIZE));
}

TEST(StatusPages, HaveTheCountersOfARank) {
  const TemporaryFolder folder;
  const auto pages = StatusPages::create(folder.path(), 2);
  ASSERT_TRUE(pages) << pages.error().message;
  RanksPage page(*pages, 1);
  page->attached = 2;
  page->step = 7;
  page->samples = 640;
  page->collective_ns = 2'500'000'000;
  page->waiting_ns = 1'500'000'000;
  page->epochs_over = HVD_STATUS_EPOCHS + 2;
  for (std::uint64_t i = 2; i < HVD_STATUS_EPOCHS + 2; ++i)
    page->epochs[i % HVD_STATUS_EPOCHS] = {i + 100, 1'000'000'000 * i, 10 * i};
  std::strcpy(page->metrics[0].name, "loss");
  page->metrics[0].value = 0.25;
  const RankCounters counters = pages->counters(1);
  EXPECT_TRUE(counters.joined);
  EXPECT_EQ(counters.steps, 7u);
  EXPECT_EQ(counters.samples, 640u);
  EXPECT_EQ(counters.collective_seconds, 2.5);
  EXPECT_EQ(counters.waiting_seconds, 1.5);
  EXPECT_EQ(counters.epochs_over, HVD_STATUS_EPOCHS + 2u);
  ASSERT_EQ(counters.epochs.size(), HVD_STATUS_EPOCHS);
  EXPECT_EQ(counters.epochs.front().epoch, 102u) << "the oldest of the kept epochs comes first";
  EXPECT_EQ(counters.epochs.front().seconds, 2);
  EXPECT_EQ(counters.epochs.back().samples, 10 * (HVD_STATUS_EPOCHS + 1u));
  ASSERT_EQ(counters.metrics.size(), 1u);
  EXPECT_EQ(counters.metrics[0].name, "loss");
  EXPECT_EQ(counters.metrics[0].value, 0.25);
}

TEST(StatusPages, IgnoreASectionThatIsBeingWritten) {
  const TemporaryFolder folder;
  const auto pages = StatusPages::create(folder.path(), 1);
  ASSERT_TRUE(pages) << pages.error().message;
  RanksPage page(*pages, 0);
  page->epochs_over = 1;
  page->epochs_sequence = 1;  // the rank was killed during the write
  page->step = 3;
  const RankCounters counters = pages->counters(0);
  EXPECT_TRUE(counters.epochs.empty());
  EXPECT_EQ(counters.epochs_over, 0u);
  EXPECT_EQ(counters.steps, 3u);
}

TEST(StatusPages, AreEmptyAfterARankHasTruncatedTheFile) {
  const TemporaryFolder folder;
  auto pages = StatusPages::create(folder.path(), 2);
  ASSERT_TRUE(pages) << pages.error().message;
  {
    RanksPage page(*pages, 1);
    page->step = 7;
    page->error_length = 3;
    std::strcpy(page->error_text, "bad");
    page->failure_length = 1;
  }
  const auto file = folder.path() / "status";
  for (const off_t size : {off_t{HVD_STATUS_DISTANCE + 100}, off_t{0}}) {
    ASSERT_EQ(::truncate(file.c_str(), size), 0);
    EXPECT_EQ(pages->read(1).last_error, "");
    EXPECT_EQ(pages->counters(1).samples, 0u);
    EXPECT_EQ(pages->failure(1).text, "");
    pages->set_pid(1, 4711);
    pages->ask_to_stop();
  }
  EXPECT_EQ(pages->read(0).step, 0u);
}

}  // namespace
}  // namespace hvdrun
