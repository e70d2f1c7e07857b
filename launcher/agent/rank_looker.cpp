#include "agent/rank_looker.hpp"

#include "agent/process_activity.hpp"
#include "agent/rank_messages.hpp"
#include "base/process_state.hpp"
#include "base/subprocess.hpp"
#include "base/system.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// Of a host.
constexpr std::size_t kMostLooks = 64;
// Of a stack, in each language.
constexpr std::size_t kDepth = 64;
// The looker gets so much less time than we have, so that it can print what it knows.
constexpr milliseconds kReserve{300};
constexpr std::size_t kMostText = 32u << 20;

// Returns what a rank's process does, in a word. Programs that wait for one other are followed.
std::string kind_of(pid_t pid) {
  const auto activity = activity_of(pid);
  const char state = process_state(activity.pid);
  return activity.program + "/" + activity.system_call + "/" + std::string(1, state);
}

}  // namespace

std::vector<pid_t> pids_to_look_at(const std::vector<RankState>& states,
                                   const std::function<std::string(pid_t)>& kind_of) {
  struct Candidate {
    pid_t pid = 0;
    bool in_collective = false;
    std::string kind = {};
    std::size_t like_it = 0;  // of its kind, before it
  };
  std::vector<Candidate> alive;
  for (const auto& state : states)
    if (state.state != "ended")
      alive.push_back({state.pid, !state.collective.empty() || !state.background.empty()});
  if (alive.size() > kMostLooks) {
    std::map<std::string, std::size_t> sizes;
    for (auto& one : alive) {
      one.kind = kind_of(one.pid) + (one.in_collective ? "/collective" : "");
      one.like_it = sizes[one.kind]++;
    }
    std::ranges::stable_sort(alive, {}, [&sizes](const Candidate& one) {
      const bool is_first = one.like_it == 0;
      return std::tuple(!is_first, is_first ? sizes[one.kind] : 0, one.in_collective);
    });
    alive.resize(kMostLooks);
  }
  std::vector<pid_t> pids;
  for (const auto& one : alive) pids.push_back(one.pid);
  return pids;
}

RankLooker::RankLooker(const EventLoop& loop, Link& link)
    : loop_(loop), link_(link), limit_(loop, [this] { send("time ran out"); }) {}

void RankLooker::start(const QuestionMessage& wanted, const StatusPages& pages,
                       const RankProcesses& ranks) {
  if (child_ != 0) send("another look began");
  answer_ = answer_of(wanted, pages, ranks.all());
  answer_.more = true;
  link_.send(FrameType::answer, kToLauncher, pack(answer_));
  answer_.more = false;
  if (auto begun = spawn_looker(wanted); !begun) send(begun.error().message);
}

Result<void> RankLooker::spawn_looker(const QuestionMessage& wanted) {
  const auto pids = pids_to_look_at(answer_.ranks, kind_of);
  if (pids.empty()) {
    send({});
    return {};
  }
  const auto limit = std::max(wanted.limit - kReserve - wanted.interval, milliseconds(200));
  std::vector<std::string> command{
      "/proc/self/exe", std::string(kLookArgument),
      "--programs",     "--twice",
      "--interval",     std::to_string(std::max<long>(1, wanted.interval.count())),
      "--time-limit",   fmt::format("{:.3f}", std::chrono::duration<double>(limit).count()),
      "--depth",        std::to_string(kDepth)};
  // One process of the job answers for all of it, so one agent asks.
  if (std::ranges::count(answer_.ranks, 0, &RankState::rank) > 0) command.push_back("--nccl");
  for (const pid_t pid : pids) command.push_back(std::to_string(pid));
  HVD_TRY(Pipe output, make_pipe());
  HVD_CHECK(set_nonblocking(output.read.get()));
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  HVD_TRY(child_, spawn(command, {null.get(), output.write.get(), null.get()}));
  if (auto held = watch_child(child_)) held_ = std::move(*held);
  output_ = std::move(output.read);
  readable_ = FdEvent(loop_, output_.get(), FdEvent::readable, [this] { read(); });
  readable_.enable();
  limit_.start(wanted.limit);
  return {};
}

void RankLooker::read() {
  std::array<char, 65536> part;  // NOLINT: filled by read
  while (true) {
    const ssize_t got = ::read(output_.get(), part.data(), part.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0 || text_.size() > kMostText) return send({});
    text_.append(part.data(), static_cast<std::size_t>(got));
  }
}

void RankLooker::send(std::string problem) {
  std::string_view text = text_;
  while (true) {
    const auto end = text.find('\n');
    if (end == std::string_view::npos) break;  // a line that is not whole is cut JSON
    answer_.looks.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  answer_.problem = std::move(problem);
  link_.send(FrameType::answer, kToLauncher, pack(answer_));
  stop();
}

// Its own workers die with it, and the processes that they have stopped run again.
void RankLooker::stop() {
  limit_.cancel();
  readable_.reset();
  output_.reset();
  text_.clear();
  if (held_) ::syscall(SYS_pidfd_send_signal, held_.get(), SIGKILL, nullptr, 0);
  held_.reset();
  child_ = 0;
}

}  // namespace hvdrun
