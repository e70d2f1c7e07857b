#include "elastic_job.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun::test {
namespace {

const std::string kKey(64, 'a');

std::vector<MemberPlace> places(int size) {
  std::vector<MemberPlace> all;
  for (std::uint32_t member = 0; member < static_cast<std::uint32_t>(size); ++member)
    all.push_back({member, 0, member});
  return all;
}

int open_pidfd(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

}  // namespace

ElasticJob::ElasticJob(int size, const Body& body, AtMoment at_moment,
                       const std::map<std::string, std::string>& variables)
    : at_moment_(std::move(at_moment)),
      listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      stop_(::eventfd(0, EFD_CLOEXEC)),
      generations_({}, places(size)) {
  const std::string path = folder_.file("agent");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  EXPECT_EQ(::listen(listener_.get(), size), 0);
  for (int member = 0; member < size; ++member) {
    children_.emplace_back([&](const libhvd::test::Child::Report& report) {
      listener_.reset();
      const auto set = [](const std::string& name, const std::string& value) {
        ::setenv(name.c_str(), value.c_str(), 1);
      };
      set("HVD_AGENT", path);
      set("HVD_MEMBER", std::to_string(member));
      set("HVD_JOB_KEY", kKey);
      set("HVD_SHM_DIR", memory_.path());
      set("RANK", std::to_string(member));
      set("WORLD_SIZE", std::to_string(size));
      for (const char* name : {"PMIX_NAMESPACE", "PMIX_RANK", "HVD_STATUS", "HVD_LOCAL_RANK"})
        ::unsetenv(name);
      for (const auto& [name, value] : variables) set(name, value);
      body(member, report);
      std::exit(0);  // with the exit handlers, as a program's
    });
    lives_.emplace_back(open_pidfd(children_.back().pid()));
  }
  thread_ = std::thread([this] { run(); });
}

ElasticJob::~ElasticJob() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  EXPECT_EQ(::write(stop_.get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
  thread_.join();
}

std::vector<std::string> ElasticJob::lines(int member) {
  std::vector<std::string> all;
  while (auto next = line(member)) all.push_back(std::move(*next));
  return all;
}

void ElasticJob::end() {
  for (int member = 0; member < static_cast<int>(children_.size()); ++member) lines(member);
  thread_.join();
}

void ElasticJob::run() {
  while (true) {
    std::vector<pollfd> waits{{stop_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    std::vector<std::uint32_t> living;
    for (std::uint32_t member = 0; member < lives_.size(); ++member) {
      if (!lives_[member]) continue;
      living.push_back(member);
      waits.push_back({lives_[member].get(), POLLIN, 0});
    }
    if (living.empty()) return;
    std::vector<std::uint32_t> members;
    for (const auto& [member, peer] : peers_) {
      members.push_back(member);
      waits.push_back({peer.socket.get(), POLLIN, 0});
    }
    for (const Peer& guest : guests_) waits.push_back({guest.socket.get(), POLLIN, 0});
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    if (waits[0].revents != 0) return;
    const std::size_t first_guest = 2 + living.size() + members.size();
    for (std::size_t i = guests_.size(); i > 0; --i)
      if (waits[first_guest + i - 1].revents != 0) take_hello(i - 1);
    for (std::size_t i = 0; i < members.size(); ++i)
      if (waits[2 + living.size() + i].revents != 0) read_frames(members[i]);
    for (std::size_t i = 0; i < living.size(); ++i)
      if (waits[2 + i].revents != 0) reap(living[i]);
    if (waits[1].revents != 0) accept();
  }
}

void ElasticJob::accept() {
  guests_.emplace_back();
  guests_.back().socket = Fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

void ElasticJob::take_hello(std::size_t at) {
  Peer& guest = guests_[at];
  const bool open = read(guest);
  AgentFrame frame;
  if (guest.reader.next(frame) == AgentFrameReader::Status::frame) {
    const auto hello = decode_hello(frame.payload);
    if (frame.kind == AgentFrameKind::hello && hello) {
      const auto member = hello->member;
      peers_[member] = std::move(guest);
      guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(at));
      read_frames(member);
      return;
    }
    fault_ = "no hello";
  }
  if (!open) guests_.erase(guests_.begin() + static_cast<std::ptrdiff_t>(at));
}

// Reads what has arrived. Returns false at the end.
bool ElasticJob::read(Peer& peer) {
  std::array<char, 64 << 10> buffer;
  while (true) {
    const auto count = ::recv(peer.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0) return true;
    if (count == 0) return false;
    peer.reader.feed({buffer.data(), static_cast<std::size_t>(count)});
  }
}

void ElasticJob::read_frames(std::uint32_t member) {
  const auto found = peers_.find(member);
  if (found == peers_.end()) return;
  const bool open = read(found->second);
  AgentFrame frame;
  AgentFrameReader::Status status;
  while ((status = found->second.reader.next(frame)) == AgentFrameReader::Status::frame)
    take(member, frame);
  if (status == AgentFrameReader::Status::malformed) fault_ = "a malformed frame";
  if (!open) peers_.erase(member);
}

void ElasticJob::take(std::uint32_t member, const AgentFrame& frame) {
  const auto generation = state().generation;
  if (frame.kind == AgentFrameKind::come) {
    const auto come = decode_come(frame);
    if (!come) fault_ = "a malformed come";
    at(Moment::Kind::came, member, generation);
    if (come) carry_out(generations_.came(member, *come));
  } else if (frame.kind == AgentFrameKind::part) {
    const auto part = decode_part(frame.payload);
    if (!part) fault_ = "a malformed part";
    if (part) at(Moment::Kind::part, member, generation, part->exchange);
    if (part)
      carry_out(generations_.took_part(member, frame.generation, part->exchange, part->blob));
  } else if (frame.kind == AgentFrameKind::leave) {
    carry_out(generations_.left(member));
  } else {
    fault_ = "a frame of another kind";
  }
}

void ElasticJob::reap(std::uint32_t member) {
  read_frames(member);  // all that it sent before its end
  siginfo_t info{};
  const int outcome =
      ::waitid(P_PIDFD, static_cast<id_t>(lives_[member].get()), &info, WEXITED | WNOWAIT);
  lives_[member].reset();
  peers_.erase(member);
  if (outcome != 0) fault_ = "another thread has reaped a member";
  if (info.si_code == CLD_EXITED && info.si_status == 0)
    return carry_out(generations_.finished(member));
  carry_out(generations_.lost(
      member, info.si_code == CLD_EXITED
                  ? "exited with code " + std::to_string(info.si_status)
                  : "was killed by SIG" + std::string(::sigabbrev_np(info.si_status))));
}

void ElasticJob::carry_out(const Actions& actions) {
  for (const auto& action : actions) {
    if (const auto* const over = std::get_if<action::Over>(&action)) {
      for (const auto member : over->to)
        send(member, AgentFrameKind::over, over->over.generation, encode(over->over));
      for (const auto member : over->to) at(Moment::Kind::over, member, over->over.generation);
    } else if (const auto* const go = std::get_if<action::Go>(&action)) {
      const auto& ranks = go->go.ranks;
      for (const auto& rank : ranks)
        send(rank.member, AgentFrameKind::go, go->go.generation, encode(go->go));
      for (const auto& rank : ranks) at(Moment::Kind::go, rank.member, go->go.generation);
    } else if (const auto* const parts = std::get_if<action::Parts>(&action)) {
      for (const auto member : parts->to)
        send(member, AgentFrameKind::parts, parts->parts.generation, encode(parts->parts));
      for (const auto member : parts->to)
        at(Moment::Kind::parts, member, parts->parts.generation, parts->parts.exchange);
    } else if (const auto* const end = std::get_if<action::EndMember>(&action)) {
      fault_ = "member " + std::to_string(end->member) + " " + end->text;
    }
  }
}

void ElasticJob::send(std::uint32_t member, AgentFrameKind kind, std::uint32_t generation,
                      const std::string& payload) {
  const auto peer = peers_.find(member);
  if (peer == peers_.end()) return;
  const auto bytes = encode_agent_frame({kind, generation, payload});
  static_cast<void>(::send(peer->second.socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
}

void ElasticJob::at(Moment::Kind kind, std::uint32_t member, std::uint32_t generation,
                    std::uint32_t exchange) {
  const int signal = at_moment_ ? at_moment_({kind, member, generation, exchange}) : 0;
  if (signal != 0) ::kill(children_[member].pid(), signal);
}

}  // namespace hvdrun::test
