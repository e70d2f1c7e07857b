#include "../temporary_folder.hpp"
#include "agent/descriptor_limit.hpp"
#include "agent/held_ports.hpp"
#include "agent/host_watch.hpp"
#include "agent/job_folders.hpp"
#include "agent/status_pages.hpp"
#include "base/system.hpp"

#include <cstdlib>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace hvdrun {
namespace {

TEST(JobFolders, ArePrivateAndRemovedWithTheirContents) {
  auto folders = JobFolders::of("test-" + random_hex(8), 3);
  ASSERT_TRUE(folders.create(true));
  struct stat status {};
  ASSERT_EQ(::stat(folders.shared.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
  std::ofstream(folders.temporary / "file") << "x";
  std::filesystem::create_directories(folders.shared / "a" / "b");
  EXPECT_FALSE(folders.create(true)) << "an existing folder belongs to another job or user";
  folders.clean_up();
  EXPECT_FALSE(std::filesystem::exists(folders.temporary));
  EXPECT_FALSE(std::filesystem::exists(folders.shared));
  folders.clean_up();  // a second call is no error
}

// Maps the page that HVD_STATUS names, as a rank does.
hvd_status_page* map_page(const std::string& location) {
  const auto at = location.rfind('@');
  const Fd file(::open(location.substr(0, at).c_str(), O_RDWR | O_CLOEXEC));
  void* page = ::mmap(nullptr, HVD_STATUS_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                      std::stol(location.substr(at + 1)));
  auto* sections = static_cast<hvd_status_page*>(page);
  if (page != MAP_FAILED)  // as after a rank's first write to each section
    sections->collective_sequence = sections->background_sequence = sections->error_sequence = 2;
  return sections;
}

TEST(StatusPages, ShowTheValuesThatTheRankWrites) {
  const TemporaryFolder folder;
  auto pages = StatusPages::create(folder.path(), 3);
  ASSERT_TRUE(pages) << pages.error().message;
  auto* page = map_page(pages->location(2));
  ASSERT_NE(page, MAP_FAILED);
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
  ::munmap(page, HVD_STATUS_PAGE_SIZE);
}

TEST(StatusPages, ShowTheCollectiveInTheBackground) {
  const TemporaryFolder folder;
  auto pages = StatusPages::create(folder.path(), 1, HVD_LAUNCHER_TELLS_STALLS);
  ASSERT_TRUE(pages) << pages.error().message;
  auto* page = map_page(pages->location(0));
  ASSERT_NE(page, MAP_FAILED);
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
  ::munmap(page, HVD_STATUS_PAGE_SIZE);
}

TEST(StatusPages, TruncateANameWithoutATerminator) {
  const TemporaryFolder folder;
  auto pages = StatusPages::create(folder.path(), 1);
  ASSERT_TRUE(pages);
  auto* page = map_page(pages->location(0));
  page->collective_active = 1;
  std::memset(page->collective_name, 'x', HVD_STATUS_NAME_SIZE);
  EXPECT_EQ(pages->read(0).blocking.name.size(), HVD_STATUS_NAME_SIZE);
  ::munmap(page, HVD_STATUS_PAGE_SIZE);
}

TEST(StatusPages, AskToStopThroughThePageAndTheEventfd) {
  const TemporaryFolder folder;
  auto pages = StatusPages::create(folder.path(), 1);
  ASSERT_TRUE(pages);
  auto* page = map_page(pages->location(0));
  pollfd waiting{pages->notice_fd(0), POLLIN, 0};
  EXPECT_EQ(::poll(&waiting, 1, 0), 0);
  pages->ask_to_stop();
  EXPECT_EQ(page->notices, HVD_NOTICE_STOP);
  EXPECT_EQ(page->notice_sequence, 1u);
  EXPECT_EQ(::poll(&waiting, 1, 0), 1);
  ::munmap(page, HVD_STATUS_PAGE_SIZE);
}

TEST(OomWatch, NoticesOomKillsOfItsCgroup) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "memory.events";
  const auto write = [&](int kills) {
    std::ofstream(file) << "low 0\nhigh 0\noom 5\noom_kill " << kills << "\noom_group_kill 0\n";
  };
  write(3);
  OomWatch watch(file);
  EXPECT_FALSE(watch.happened()) << "these kills were before";
  constexpr int kExitCode1 = 0x0100;
  EXPECT_FALSE(watch.may_explain(kExitCode1));
  write(5);
  EXPECT_TRUE(watch.may_explain(kExitCode1)) << "a child of the rank was killed";
  EXPECT_FALSE(watch.may_explain(0));
  EXPECT_TRUE(watch.may_explain(SIGKILL));
  EXPECT_TRUE(watch.happened());
  EXPECT_FALSE(watch.happened());
}

TEST(OomWatch, ReportsNothingWithoutACounter) {
  OomWatch watch(std::filesystem::path{});
  EXPECT_FALSE(watch.happened());
  OomWatch missing("/nonexistent/memory.events");
  EXPECT_FALSE(missing.happened());
}

TEST(HeldPorts, AreReservedButTheProgramCanListenOnThem) {
  const auto ports = hold_ports(1, 0);
  ASSERT_TRUE(ports) << ports.error().message;
  const Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(ports->front().number));
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(::listen(socket.get(), 1), 0);
}

// Among so many ports, a dozen would be next to the master port by chance.
TEST(HeldPorts, ExcludePortsNextToTheMasterPort) {
  constexpr int kCount = 3000;
  raise_descriptor_limit(kCount + 200);
  const auto first = [](int given) {
    const auto ports = hold_ports(kCount, given);
    EXPECT_TRUE(ports) << ports.error().message;
    const int master = given != 0 ? given : ports->front().number;
    for (std::size_t i = 1; i < ports->size(); ++i)
      EXPECT_GT(std::abs((*ports)[i].number - master), kPortsLeftToProgram) << master;
    return ports->front().number;
  };
  first(first(0));
}

}  // namespace
}  // namespace hvdrun
