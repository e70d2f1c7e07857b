#include "agent/connection_watch.hpp"

#include "agent/process_tree.hpp"
#include "agent/socket_owner.hpp"
#include "common/file_content.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <unistd.h>

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

// States and timers of connections in /proc/net/tcp.
constexpr std::string_view kListening = "0A";
constexpr std::string_view kTimeWait = "06";
constexpr std::string_view kTimeWaitTimer = "03";
// Ranks of an MPI that cannot find others have not joined after this long, and will not.
constexpr std::chrono::milliseconds kMpiLimit{5000};
// How long the kernel lists a connection after its end (TCP_TIMEWAIT_LEN).
constexpr std::chrono::milliseconds kTimeWaitLength{60000};

std::set<int> ports_of_ranks(const LaunchMessage& job, const std::vector<HeldPort>& held) {
  std::set<int> ports;
  for (const auto& port : held) ports.insert(port.number);
  for (const auto& [name, value] : job.ranks.front().environment)
    if (name == "MASTER_PORT") ports.insert(std::atoi(value.c_str()));
  return ports;
}

bool has_tf_config(const LaunchMessage& job) {
  const auto& own = job.ranks.front().environment;
  const auto& all = job.environment;
  return std::any_of(own.begin(), own.end(),
                     [](const auto& entry) { return entry.first == "TF_CONFIG"; }) ||
         std::any_of(all.begin(), all.end(),
                     [](const auto& entry) { return entry.starts_with("TF_CONFIG="); });
}

// Returns the port of an address as in /proc/net/tcp, "0100007F:1F90".
int port_of(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return 0;
  return static_cast<int>(std::strtol(address.c_str() + colon + 1, nullptr, 16));
}

// Returns how long ago a connection was closed whose column "tr tm->when" this is: the rest of its
// time is in clock ticks. Returns nullopt if the column is of another timer.
std::optional<std::chrono::milliseconds> closed_ago(std::string_view timer) {
  if (!timer.starts_with(kTimeWaitTimer) || timer.size() <= kTimeWaitTimer.size()) return {};
  const auto rest =
      std::strtol(std::string(timer.substr(kTimeWaitTimer.size() + 1)).c_str(), nullptr, 16);
  return kTimeWaitLength - std::chrono::milliseconds(rest * 1000 / ::sysconf(_SC_CLK_TCK));
}

// Adds the inodes in a table of sockets. Returns false if it cannot be read.
bool add_inodes(const fs::path& table, std::set<std::uint64_t>& inodes) {
  const auto content = read_content(table);
  if (!content) return false;
  std::istringstream lines(*content);
  std::string line;
  std::getline(lines, line);  // the title
  while (std::getline(lines, line)) {
    // sl local remote state queues timer retransmits uid timeout inode
    std::istringstream words(line);
    std::string word;
    bool listens = false;
    for (int i = 0; i < 10; ++i) {
      words >> word;
      if (i == 3) listens = word == kListening;
    }
    if (!listens) inodes.insert(std::strtoull(word.c_str(), nullptr, 10));
  }
  return true;
}

// Adds the libraries whose files are named in the text.
void add_named(const std::string& text, UsedLibraries& used) {
  const auto has = [&text](const char* file) { return text.find(file) != std::string::npos; };
  used.tensorflow |= has("libtensorflow_framework.so");
  used.mpich |= has("libmpich.so") || has("libmpi.so.12");
  used.open_mpi |= has("libmpi.so.40") || has("libmpi.so.80");
}

constexpr std::chrono::milliseconds kShortestInterval{1000};

}  // namespace

std::chrono::milliseconds interval_after(std::chrono::milliseconds run,
                                         std::chrono::milliseconds left) {
  return std::max(std::min(run / 4, left), kShortestInterval);
}

ConnectionWatch::ConnectionWatch(const EventLoop& loop, Events events)
    : events_(std::move(events)), timer_(loop, [this] { on_timer(); }) {}

void ConnectionWatch::on_timer() {
  look();
  if (seen_ || events_.joined()) {
    joined_later_ = told_;
    if (told_) events_.on_apart();
    return;
  }
  const bool cannot_join = used_.mpich || lacks_pmix();
  const auto limit = cannot_join ? std::min(kMpiLimit, join_time_) : join_time_;
  if (limit.count() > 0 && age() >= limit && !std::exchange(told_, true)) events_.on_apart();
  const auto left = told_ || limit.count() == 0 ? age() : limit - age();
  timer_.start(interval_after(age(), left));
}

void ConnectionWatch::start(const LaunchMessage& job, const std::vector<HeldPort>& held) {
  if (job.size < 2 || job.ranks.empty()) return;  // none: they come later, one by one
  ports_ = ports_of_ranks(job, held);
  has_tf_config_ = has_tf_config(job);
  has_pmix_ = !job.pmix_namespace.empty();
  join_time_ = job.join_time;
  program_ = job.program;
  begun_ = std::chrono::steady_clock::now();
  timer_.start(kShortestInterval);
}

void ConnectionWatch::look() {
  SocketsByNamespace known;
  for (const auto& process : processes_below(::getpid())) {
    add_used_libraries(process.pid, used_);
    // Without PMIx, Open MPI has a connection to a helper that it starts itself.
    seen_ = seen_ || (!lacks_pmix() && has_tcp_socket(process.pid, known));
  }
  look_at_ports();
}

void ConnectionWatch::look_at_ports() {
  seen_ = seen_ || has_connection(ports_, age());
}

std::chrono::milliseconds ConnectionWatch::age() const {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() -
                                                               begun_);
}

void ConnectionWatch::rank_ended() {
  if (std::exchange(rank_has_ended_, true) || !timer_.pending() || events_.joined()) return;
  if (age() >= kShortestExamined) look();
}

void ConnectionWatch::finish() {
  if (!timer_.pending()) return;
  timer_.cancel();
  if (events_.joined()) return;
  was_too_short_ = age() < kShortestExamined;
  if (!was_too_short_) look_at_ports();
  if (seen_) return;
  const auto named = libraries_named_in(program_);
  used_.mpich |= named.mpich;
  used_.open_mpi |= named.open_mpi;
  if (named.mpich || lacks_pmix()) was_too_short_ = false;
}

bool has_tcp_socket(pid_t pid, SocketsByNamespace& known) {
  const fs::path process = fs::path("/proc") / std::to_string(pid);
  std::error_code error;
  const auto sockets = sockets_of(pid, error);
  if (error) return error.value() != ENOENT && error.value() != ESRCH;
  if (sockets.empty()) return false;
  const auto name = fs::read_symlink(process / "ns" / "net", error).string();
  auto found = known.find(name);
  if (error || found == known.end()) {
    std::set<std::uint64_t> inodes;
    if (!add_inodes(process / "net" / "tcp", inodes)) return fs::exists(process, error);
    add_inodes(process / "net" / "tcp6", inodes);
    found = known.insert_or_assign(name, std::move(inodes)).first;
  }
  return std::any_of(sockets.begin(), sockets.end(),
                     [&](auto socket) { return found->second.contains(socket); });
}

bool has_connection(const std::set<int>& ports, std::chrono::milliseconds age) {
  for (const char* const table : {"/proc/self/net/tcp", "/proc/self/net/tcp6"}) {
    std::istringstream lines(content_of(table));
    std::string line;
    std::getline(lines, line);  // the title
    while (std::getline(lines, line))
      if (is_connection(line, ports, age)) return true;
  }
  return false;
}

bool is_connection(const std::string& line, const std::set<int>& ports,
                   std::chrono::milliseconds age) {
  std::istringstream words(line);
  std::string number;
  std::string local;
  std::string remote;
  std::string state;
  std::string queues;
  std::string timer;
  words >> number >> local >> remote >> state >> queues >> timer;
  if (state == kListening || !(ports.contains(port_of(local)) || ports.contains(port_of(remote))))
    return false;
  return state != kTimeWait || closed_ago(timer).value_or(age) <= age + kClockTolerance;
}

UsedLibraries libraries_named_in(const std::string& program) {
  UsedLibraries named;
  const auto start = content_of(program, std::size_t{1} << 16U);
  if (start.starts_with("\x7f"
                        "ELF"))
    add_named(start, named);
  return named;
}

void add_used_libraries(pid_t pid, UsedLibraries& used) {
  add_named(content_of("/proc/" + std::to_string(pid) + "/maps"), used);
}

}  // namespace hvdrun
