// A /dev/shm that is too small, as in containers. The tests mount a small tmpfs in a mount
// namespace, which needs root or user namespaces.
#include "reporting.hpp"

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

// Enters a mount namespace, and without root a user namespace too; see user_namespaces(7).
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
  Child child([](const Child::Report& report) { report(enter_namespaces() ? "yes" : "no"); });
  return child.line() == "yes";
}

// A folder on a tmpfs of a given size, such as "64k".
class Tmpfs {
 public:
  explicit Tmpfs(const std::string& size) {
    mounted_ = ::mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~Tmpfs() { ::umount2(folder_.path().c_str(), MNT_DETACH); }
  Tmpfs(const Tmpfs&) = delete;
  Tmpfs& operator=(const Tmpfs&) = delete;

  bool mounted() const { return mounted_; }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  bool mounted_ = false;
};

// Waits until the child has ended, so that nothing of it is left. Returns its line.
std::string line_of_ended(Child& child) {
  std::string line = child.line().value_or("nothing");
  child.wait();
  return line;
}

// Runs the body in the ranks of a job whose hosts have so much room for shared memory. Returns the
// line of each rank, and "something left" if a file is left there.
std::string run_in(const std::string& size, const std::vector<int>& hosts,
                   const std::function<std::string()>& body) {
  Child outer([&](const Child::Report& report) {
    if (!enter_namespaces()) return report("no namespace");
    std::deque<Tmpfs> rooms;
    for (int host = 0; host < 2; ++host) {
      if (!rooms.emplace_back(size).mounted()) return report("no tmpfs");
    }
    const auto room_of = [&](int rank) -> const Tmpfs& {
      return rooms[static_cast<std::size_t>(hosts[static_cast<std::size_t>(rank)])];
    };
    Job job(hosts, [&](int rank, const Child::Report& report_own) {
      ::setenv("HVD_SHM_DIR", room_of(rank).folder().path().c_str(), 1);
      reporting(body)(rank, report_own);
    });
    std::string lines;
    for (int rank = 0; rank < job.size(); ++rank)
      lines += job.rank(rank).line().value_or("nothing") + "; ";
    for (const Tmpfs& room : rooms)
      lines += room.folder().entries().empty() ? "" : "something left";
    report(lines);
  });
  return line_of_ended(outer);
}

// Runs the body in one process that is no rank, and returns its result.
std::string run_alone_in(const std::string& size,
                         const std::function<std::string(const std::string& folder)>& body) {
  Child outer([&](const Child::Report& report) {
    if (!enter_namespaces()) return report("no namespace");
    const Tmpfs room(size);
    report(room.mounted() ? body(room.folder().path()) : "no tmpfs");
  });
  return line_of_ended(outer);
}

// Makes the memory file unreachable for later ranks, as where /proc cannot be read.
void hide_memory_file(const Segment& segment) {
  ::unlink((segment.name().path + ".memory").c_str());
}

// Returns what this process has mapped at the buffer, such as "/memfd:hvd (deleted)"; see proc(5).
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

// Sums over all ranks in private memory, then in memory of hvd_alloc. Returns what is mapped at the
// latter.
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

const std::string kInMemoryFile = "/memfd:hvd (deleted); ";

TEST_F(LittleSharedMemory, WithoutRoomTheSegmentIsInAMemoryFile) {
  EXPECT_EQ(run_in("4k", {0, 0, 0}, add_up), kInMemoryFile + kInMemoryFile + kInMemoryFile);
}

TEST_F(LittleSharedMemory, WithoutRoomSeveralHostsUseMemoryFiles) {
  EXPECT_EQ(run_in("4k", {0, 1, 0}, add_up), kInMemoryFile + kInMemoryFile + kInMemoryFile);
}

TEST_F(LittleSharedMemory, BuffersThatDoNotFitAreInAMemoryFile) {
  EXPECT_EQ(run_in("4m", {0, 0}, add_up), kInMemoryFile + kInMemoryFile);
}

TEST_F(LittleSharedMemory, WithEnoughRoomBuffersAreInAMemoryFileToo) {
  EXPECT_EQ(run_in("64m", {0, 0}, add_up), kInMemoryFile + kInMemoryFile);
}

TEST_F(LittleSharedMemory, AnUnreachableMemoryFileFailsWithTheNeededSize) {
  const std::string text = run_alone_in("4k", [](const std::string& folder) {
    const auto made = Segment::create(folder, "j1", 2);
    if (!made.ok()) return made.error().message;
    hide_memory_file(*made);
    const auto opened = Segment::open(made->name(), 2);
    return opened.ok() ? "opened" : opened.error().message;
  });
  EXPECT_NE(text.find(".memory: No such file or directory: the shared memory in "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("KiB, which 2 ranks need"), std::string::npos) << text;
}

TEST_F(LittleSharedMemory, AMemoryFileThatOneRankCannotReachIsUsedByNone) {
  const std::string text = run_alone_in("4m", [](const std::string& folder) {
    auto made = Segment::create(folder, "j1", 2);
    if (!made.ok()) return made.error().message;
    hide_memory_file(*made);
    auto opened = Segment::open(made->name(), 2);
    if (!opened.ok()) return opened.error().message;
    const auto range = made->reserve_range(std::size_t{8} << 20);
    if (range.ok()) return std::string("a range that the other one cannot map");
    if (!made->reserve_range(4096).ok()) return std::string("no range in the folder");
    return range.error().message;
  });
  EXPECT_NE(text.find("has no room for 8192 KiB"), std::string::npos) << text;
}

TEST_F(LittleSharedMemory, BuffersWorkWhenItBecomesFullLater) {
  const auto body = [] {
    hvd::init();
    for (int i = 0; i < 3; ++i) {
      hvd::Buffer<float> shared(256 << 10);  // 1 MiB, freed before the next one
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
