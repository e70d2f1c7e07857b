#include "look/look_worker.hpp"

#include "common/clock.hpp"
#include "common/fd.hpp"
#include "common/result.hpp"
#include "common/write_all.hpp"
#include "look/look_at.hpp"
#include "look/proc_files.hpp"
#include "look/programs_of.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostWorkers = 8;
// With a common deadline: so many that have just begun, besides those that take long or hang. With
// more at once on a busy machine none would come to its end in time.
constexpr std::size_t kMostYoung = 24;
constexpr std::chrono::milliseconds kYoung{1000};
constexpr std::size_t kLongestHeader = 20;
// A worker that stops a process for longer than this is killed. Then the process continues.
constexpr std::chrono::milliseconds kLongestStop{45};
// The same for one that wants to run: on a busy machine it could not end sooner, either.
constexpr std::chrono::milliseconds kLongestBusyStop{300};
constexpr std::chrono::milliseconds kTick{5};

// Memory that a worker shares with us: when its stop began.
using Began = std::atomic<std::uint64_t>;

[[noreturn]] void work(const LookRequest& request, pid_t pid, bool again, int out, Began* began,
                       pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  LookOptions options;
  options.stop = request.stop && !again;
  options.stopped_too_long = again;
  options.twice = request.twice;
  options.interval = request.interval;
  options.depth = request.depth;
  options.stop_began = began;
  options.asked = pid;
  // Each text comes after its length, so that one of which only a part has come is not taken. It
  // replaces the one before.
  std::string finished;
  std::string last;
  options.publish = [&](const ProcessLook& look) {
    last = finished + request.print(look);
    common::write_all(out, std::to_string(last.size()) + "\n" + last);
  };
  for (const pid_t program : request.programs ? programs_of(pid) : std::vector<pid_t>{pid}) {
    look_at(program, options);
    finished = last;
  }
  ::_exit(0);
}

// Returns whether a thread of the process is on a processor, or waits for one.
bool wants_to_run(pid_t pid) {
  return std::ranges::any_of(threads_of(pid), [pid](pid_t tid) {
    const auto stat = read_stat(pid, "task/" + std::to_string(tid) + "/stat");
    return stat && stat->state == 'R';
  });
}

class Worker {
 public:
  Worker(const LookRequest& request, pid_t pid, Began* began, Clock::time_point deadline)
      : request_(request), pid_(pid), began_(began), deadline_(deadline) {
    start(false);
  }

  // Returns -1 if there is nothing to read for now.
  int fd() const { return is_ending_ ? -1 : out_.get(); }
  bool done() const { return !out_; }
  bool is_young() const { return !done() && Clock::now() - started_ < kYoung; }
  const std::string& text() const { return text_; }
  pid_t pid() const { return pid_; }
  Began* began() const { return began_; }

  // Reads what has come. At the end of it the worker is done.
  void read() {
    std::array<char, 65536> part{};
    const ssize_t got = ::read(out_.get(), part.data(), part.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got <= 0) return finish();
    received_.append(part.data(), static_cast<std::size_t>(got));
    while (take_text()) {
    }
  }

  void check_time() {
    if (Clock::now() > deadline_) return finish();
    if (is_ending_) return start_again();
    const std::uint64_t began = *began_;
    if (began == 0) return;
    const std::chrono::nanoseconds stopped{monotonic_ns() - began};
    if (stopped <= kLongestStop || (stopped <= kLongestBusyStop && wants_to_run(child_))) return;
    ::kill(child_, SIGKILL);
    is_ending_ = true;
  }

 private:
  // Looks again, without a stop, when the killed look is gone: until then it may hold the process.
  void start_again() {
    if (::waitpid(child_, nullptr, WNOHANG) == 0) return;
    is_ending_ = false;
    received_.clear();
    *began_ = 0;
    start(true);
  }

  // `again`: this time without a stop.
  void start(bool again) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
    out_.reset(ends[0]);
    const Fd in(ends[1]);
    const pid_t parent = ::getpid();
    if (again && !request_.programs) deadline_ = Clock::now() + request_.limit;
    child_ = ::fork();
    if (child_ == 0) work(request_, pid_, again, in.get(), began_, parent);
    if (child_ < 0) out_.reset();
  }

  bool take_text() {
    const auto end = received_.find('\n');
    if (end > kLongestHeader) return false;  // also if there is none
    std::size_t size = 0;
    std::from_chars(received_.data(), received_.data() + end, size);
    if (received_.size() - end - 1 < size) return false;
    text_ = received_.substr(end + 1, size);
    received_.erase(0, end + 1 + size);
    return true;
  }

  // Ends the worker, and does not wait for that: it may hang in the kernel. Who still lives when we
  // end is reaped by init.
  void finish() {
    out_.reset();
    received_.clear();
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, WNOHANG);
    child_ = 0;
  }

  const LookRequest& request_;
  pid_t pid_;
  Began* began_;
  Clock::time_point deadline_;
  const Clock::time_point started_ = Clock::now();
  pid_t child_ = 0;
  bool is_ending_ = false;  // killed to look again
  Fd out_;
  std::string received_;
  std::string text_;
};

}  // namespace

void run_looks(const LookRequest& request,
               const std::function<void(pid_t pid, const std::string& text)>& show) {
  const std::size_t count = request.pids.size();
  void* shared = ::mmap(nullptr, std::max<std::size_t>(1, count) * sizeof(Began),
                        PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return;
  auto* begans = new (shared) Began[count];  // NOLINT: the mapping owns it
  std::vector<std::unique_ptr<Worker>> workers;
  const std::size_t most =
      request.programs ? std::max<std::size_t>(kMostYoung, 2 * std::thread::hardware_concurrency())
                       : kMostWorkers;
  const auto deadline = Clock::now() + request.limit;
  std::size_t shown = 0;
  while (shown < count) {
    const auto busy = static_cast<std::size_t>(
        std::count_if(workers.begin(), workers.end(), [&request](const auto& worker) {
          return request.programs ? worker->is_young() : !worker->done();
        }));
    if (busy < most && workers.size() < count) {
      const std::size_t next = workers.size();
      workers.push_back(
          std::make_unique<Worker>(request, request.pids[next], begans + next,
                                   request.programs ? deadline : Clock::now() + request.limit));
      continue;
    }
    std::vector<pollfd> entries;
    for (const auto& worker : workers) entries.push_back({worker->fd(), POLLIN, 0});
    ::poll(entries.data(), entries.size(), static_cast<int>(kTick.count()));
    for (std::size_t index = 0; index < workers.size(); ++index) {
      if (!workers[index]->done() && entries[index].revents != 0) workers[index]->read();
      if (!workers[index]->done()) workers[index]->check_time();
    }
    for (; shown < workers.size() && workers[shown]->done(); ++shown)
      show(workers[shown]->pid(), workers[shown]->text());
  }
  ::munmap(shared, std::max<std::size_t>(1, count) * sizeof(Began));
}

}  // namespace hvdrun
