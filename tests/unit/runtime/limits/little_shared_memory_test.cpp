// A /dev/shm that is too small, as in containers: a small tmpfs in a mount namespace of the test's
// own, which needs root or user namespaces.
#include "telling.hpp"

#include <cerrno>
#include <cstdint>
#include <deque>
#include <fstream>
#include <numeric>

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

namespace libhvd::test {
namespace {

void write_text(const char* path, const std::string& text) {
  std::ofstream(path) << text;
}

// user_namespaces(7): without root a process may mount in namespaces of its own.
bool enter_namespaces() {
  const std::string user = std::to_string(::getuid()), group = std::to_string(::getgid());
  if (::unshare(CLONE_NEWNS) != 0) {
    if (errno != EPERM || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    write_text("/proc/self/setgroups", "deny");
    write_text("/proc/self/uid_map", "0 " + user + " 1");
    write_text("/proc/self/gid_map", "0 " + group + " 1");
  }
  return ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

bool may_mount() {
  Child child([](const Child::Tell& tell) { tell(enter_namespaces() ? "yes" : "no"); });
  return child.line() == "yes";
}

// A folder with room for so much ("64k").
class Room {
 public:
  explicit Room(const std::string& size) {
    mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~Room() { ::umount2(folder_.path().c_str(), MNT_DETACH); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  bool mounted() const { return mounted_; }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  bool mounted_ = false;
};

// What it tells; when it has ended, so that nothing of it is left.
std::string last_words_of(Child& child) {
  std::string words = child.line().value_or("nothing");
  child.wait();
  return words;
}

// What the ranks of a job tell whose hosts have so much room for shared memory, a line each, and
// what is left there.
std::string run_in(const std::string& size, const std::vector<int>& hosts,
                   const std::function<std::string()>& body) {
  Child outer([&](const Child::Tell& tell) {
    if (!enter_namespaces()) return tell("no namespace");
    std::deque<Room> rooms;
    for (int host = 0; host < 2; ++host) {
      if (!rooms.emplace_back(size).mounted()) return tell("no tmpfs");
    }
    const auto room_of = [&](int rank) -> const Room& {
      return rooms[static_cast<std::size_t>(hosts[static_cast<std::size_t>(rank)])];
    };
    Job job(hosts, [&](int rank, const Child::Tell& tell_own) {
      ::setenv("HVD_SHM_DIR", room_of(rank).folder().path().c_str(), 1);
      telling(body)(rank, tell_own);
    });
    std::string told;
    for (int rank = 0; rank < job.size(); ++rank)
      told += job.rank(rank).line().value_or("nothing") + "; ";
    for (const Room& room : rooms) told += room.folder().entries().empty() ? "" : "something left";
    tell(told);
  });
  return last_words_of(outer);
}

// The same of one process that is no rank.
std::string run_alone_in(const std::string& size,
                         const std::function<std::string(const std::string& folder)>& body) {
  Child outer([&](const Child::Tell& tell) {
    if (!enter_namespaces()) return tell("no namespace");
    const Room room(size);
    tell(room.mounted() ? body(room.folder().path()) : "no tmpfs");
  });
  return last_words_of(outer);
}

// As where /proc may not be looked into: a rank that comes after this does not reach the file
// without a name.
void hide_memory(const Segment& segment) {
  ::unlink((segment.name().path + ".memory").c_str());
}

// What this process has mapped where the buffer lies: "/memfd:hvd (deleted)". proc(5).
std::string mapped_at(const void* buffer) {
  const auto address = reinterpret_cast<std::uintptr_t>(buffer);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::size_t dash = 0;
    const std::uintptr_t begin = std::stoull(line, &dash, 16);
    const std::uintptr_t end = std::stoull(line.substr(dash + 1), nullptr, 16);
    if (begin <= address && address < end)
      return line.find('/') == std::string::npos ? line : line.substr(line.find('/'));
  }
  return "nothing";
}

// Adds over all ranks in private memory, then in memory of hvd_alloc; says where the latter lies.
std::string add_up() {
  hvd::init();
  std::vector<float> own(100'000, 1);
  hvd::allreduce(std::span(own), hvd::Op::sum);
  hvd::Buffer<float> shared(2 << 20);  // 8 MiB
  std::fill(shared.span().begin(), shared.span().end(), 1.0f);
  hvd::allreduce(shared.span(), hvd::Op::sum);
  const std::string place = mapped_at(shared.span().data());
  const auto size = static_cast<float>(hvd::size());
  const bool right = own[99'999] == size && shared[0] == size && shared[(2 << 20) - 1] == size;
  hvd::shutdown();
  return right ? place : "wrong sum";
}

class LittleSharedMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (!may_mount()) GTEST_SKIP() << "neither root nor user namespaces";
  }
};

const std::string kInMemory = "/memfd:hvd (deleted); ";

TEST_F(LittleSharedMemory, WithoutAnyRoomRanksMeetInMemory) {
  EXPECT_EQ(run_in("4k", {0, 0, 0}, add_up), kInMemory + kInMemory + kInMemory);
}

TEST_F(LittleSharedMemory, SoDoRanksOnSeveralHosts) {
  EXPECT_EQ(run_in("4k", {0, 1, 0}, add_up), kInMemory + kInMemory + kInMemory);
}

TEST_F(LittleSharedMemory, WhatHasNoRoomBesideTheSegmentLiesInMemory) {
  EXPECT_EQ(run_in("4m", {0, 0}, add_up), kInMemory + kInMemory);
}

TEST_F(LittleSharedMemory, WithRoomBuffersLieInMemoryToo) {
  EXPECT_EQ(run_in("64m", {0, 0}, add_up), kInMemory + kInMemory);
}

TEST_F(LittleSharedMemory, WhoCannotReachTheMemoryIsToldHowMuchRoomIsNeeded) {
  const std::string told = run_alone_in("4k", [](const std::string& folder) {
    const auto made = Segment::create(folder, "j1", 2);
    if (!made.ok()) return made.error().message;
    hide_memory(*made);
    const auto opened = Segment::open(made->name(), 2);
    return opened.ok() ? "opened" : opened.error().message;
  });
  EXPECT_NE(told.find(".memory: No such file or directory: the shared memory in "),
            std::string::npos)
      << told;
  EXPECT_NE(told.find("KiB, which 2 ranks need"), std::string::npos) << told;
}

TEST_F(LittleSharedMemory, WhatOneRankCannotReachIsUsedByNone) {
  const std::string told = run_alone_in("4m", [](const std::string& folder) {
    auto made = Segment::create(folder, "j1", 2);
    if (!made.ok()) return made.error().message;
    hide_memory(*made);
    auto opened = Segment::open(made->name(), 2);
    if (!opened.ok()) return opened.error().message;
    const auto range = made->reserve_range(std::size_t{8} << 20);
    if (range.ok()) return std::string("a range that the other one cannot map");
    if (!made->reserve_range(4096).ok()) return std::string("no range in the folder");
    return range.error().message;
  });
  EXPECT_NE(told.find("has no room for 8192 KiB"), std::string::npos) << told;
}

TEST_F(LittleSharedMemory, ItMayAlsoBecomeFullLater) {
  const auto body = [] {
    hvd::init();
    for (int i = 0; i < 3; ++i) {
      hvd::Buffer<float> shared(256 << 10);  // 1 MiB, given back before the next
      hvd::Buffer<float> more(256 << 10);
      hvd::allreduce(shared.span(), hvd::Op::sum);
      hvd::allreduce(more.span(), hvd::Op::sum);
      hvd::barrier();
    }
    hvd::shutdown();
    return std::string("ok");
  };
  EXPECT_EQ(run_in("3m", {0, 0}, body), "ok; ok; ");
}

}  // namespace
}  // namespace libhvd::test
