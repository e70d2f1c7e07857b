#include "agent/member_server.hpp"

#include "common/text.hpp"
#include "common/variables.h"
#include "protocol/member_messages.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr int kBacklog = 4096;
// Connections that have not greeted, besides those of the members, which may all come at once.
constexpr std::size_t kMostStrangers = 64;
constexpr milliseconds kAcceptPause{100};
// A process that ends closes its connection a moment before its end is known.
constexpr milliseconds kProcessEnds{1000};

// Returns the process that has connected; nullopt: it is of another user.
std::optional<pid_t> own_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::geteuid())
    return std::nullopt;
  return peer.pid;
}

// Returns whether a process has ended. 0: it is in a PID namespace that this one does not see.
bool has_ended(pid_t process) {
  return process != 0 && ::kill(process, 0) != 0 && errno == ESRCH;
}

}  // namespace

struct MemberServer::Connection {
  Fd socket;
  pid_t peer = 0;  // the process that has connected
  AgentFrameReader reader{kMostFromMember};
  std::optional<std::uint32_t> member = {};  // after it has greeted
  std::uint32_t pid = 0;
  bool takes_part = false;   // it has come, and has not left
  bool waits = false;        // see one_waits()
  std::string pending = {};  // that the kernel has not taken
  FdEvent readable = {};
  FdEvent writable = {};
};

Result<std::unique_ptr<MemberServer>> MemberServer::start(
    const EventLoop& loop, FrameSender& link, const std::filesystem::path& folder,
    const LaunchMessage& job, std::function<void(const std::string& text)> warn) {
  std::unique_ptr<MemberServer> server(new MemberServer(loop, link, job, std::move(warn)));
  if (!server->key_) return fail("a job that continues when ranks are lost has no key");
  server->path_ = (folder / "agent").string();
  HVD_CHECK(server->listen());
  return server;
}

Result<void> MemberServer::listen() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path_.size() >= sizeof address.sun_path) return fail(path_ + " is too long for a socket");
  std::memcpy(address.sun_path, path_.c_str(), path_.size() + 1);
  Fd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener ||
      ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener.get(), kBacklog) != 0)
    return fail_errno("cannot listen at " + path_, errno);
  accept_again_.cancel();
  acceptable_.reset();
  listener_ = std::move(listener);
  acceptable_ = FdEvent(loop_, listener_.get(), FdEvent::readable, [this] { accept(); });
  acceptable_.enable();
  return {};
}

Result<bool> MemberServer::restore() {
  if (::access(path_.c_str(), F_OK) == 0) return false;
  HVD_CHECK(listen());
  return true;
}

MemberServer::MemberServer(const EventLoop& loop, FrameSender& link, const LaunchMessage& job,
                           std::function<void(const std::string& text)> warn)
    : loop_(loop),
      link_(link),
      warn_(std::move(warn)),
      accept_again_(loop, [this] { acceptable_.enable(); }),
      disconnected_timer_(loop, [this] { report_disconnected(); }) {
  for (const auto& rank : job.ranks) members_.insert(static_cast<std::uint32_t>(rank.rank));
  if (!job.key.empty()) key_ = from_hex(job.key);
}

MemberServer::~MemberServer() = default;

std::vector<std::string> MemberServer::environment_of(int rank) const {
  return {fmt::format("{}={}", kAgentVariable, path_), fmt::format("{}={}", kMemberVariable, rank)};
}

// --- connections ---------------------------------------------------------------------------------

void MemberServer::accept() {
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (would_block(errno)) return;
    acceptable_.disable();
    return accept_again_.start(kAcceptPause);
  }
  const auto peer = own_peer(socket.get());
  if (!peer) return;
  const auto is_stranger = [](const Connection& one) { return !one.member; };
  const auto most = static_cast<std::ptrdiff_t>(kMostStrangers + members_.size());
  if (std::ranges::count_if(connections_, is_stranger) >= most)
    close(std::ranges::find_if(connections_, is_stranger));
  const auto added = connections_.insert(connections_.end(), Connection{});
  added->socket = std::move(socket);
  added->peer = *peer;
  added->readable =
      FdEvent(loop_, added->socket.get(), FdEvent::readable, [this, added] { on_readable(added); });
  added->writable =
      FdEvent(loop_, added->socket.get(), FdEvent::writable, [this, added] { write(added); });
  added->readable.enable();
}

void MemberServer::close(Connections::iterator connection) {
  if (connection->member && connection->takes_part) {
    disconnected_.insert(*connection->member);
    if (!disconnected_timer_.pending()) disconnected_timer_.start(kProcessEnds);
  }
  forget(connection);
}

void MemberServer::forget(Connections::iterator connection) {
  if (connection->member) by_member_.erase(*connection->member);
  connections_.erase(connection);
}

void MemberServer::report_disconnected() {
  for (const auto member : std::exchange(disconnected_, {}))
    link_.send(FrameType::disconnected, kToLauncher, pack_from_member({member, 0, {}}));
}

void MemberServer::ended(std::uint32_t member) {
  disconnected_.erase(member);
  const auto found = by_member_.find(member);
  if (found == by_member_.end()) return;
  read(found->second);
  forget(found->second);
}

// --- from members --------------------------------------------------------------------------------

void MemberServer::on_readable(Connections::iterator connection) {
  if (!read(connection)) close(connection);
}

bool MemberServer::read(Connections::iterator connection) {
  std::array<char, 64 << 10> buffer;  // NOLINT: filled by recv
  while (true) {
    const auto count = ::recv(connection->socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0) return would_block(errno);
    if (count == 0) return false;
    connection->reader.feed({buffer.data(), static_cast<std::size_t>(count)});
    AgentFrame frame;
    auto status = AgentFrameReader::Status::frame;
    while ((status = connection->reader.next(frame)) == AgentFrameReader::Status::frame)
      if (!take(connection, frame)) return false;
    if (status == AgentFrameReader::Status::malformed) return false;
  }
}

bool MemberServer::take(Connections::iterator connection, const AgentFrame& frame) {
  if (!connection->member) return greet(connection, frame);
  const auto type = frame_type_of(frame.kind);
  if (!type || frame.kind >= AgentFrameKind::over) return false;
  if (frame.kind == AgentFrameKind::come) {
    const auto come = decode_come(frame);
    connection->takes_part = true;
    connection->waits = come && come->why == ComeReason::failed;
  }
  if (frame.kind == AgentFrameKind::leave) connection->takes_part = false;
  link_.send(*type, kToLauncher,
             pack_from_member({*connection->member, frame.generation, frame.payload}));
  return true;
}

// A member has one connection: of its first process that asks. Another process is refused as long
// as that one is connected and lives. (A child that it has left may hold its connection.)
bool MemberServer::greet(Connections::iterator connection, const AgentFrame& frame) {
  if (frame.kind != AgentFrameKind::hello) return false;
  const auto hello = decode_hello(frame.payload);
  if (!hello || !std::ranges::equal(hello->key, *key_) || hello->version != kAgentMessagesVersion ||
      !members_.contains(hello->member))
    return false;
  auto other = by_member_.find(hello->member);
  if (other != by_member_.end() && has_ended(other->second->peer)) {
    read(other->second);
    close(other->second);
    other = by_member_.end();
  }
  if (other != by_member_.end()) {
    if (!std::exchange(warned_, true))
      warn_(
          fmt::format("rank {}: process {} called hvd_init while process {} of the same rank "
                      "takes part in the job; it is refused",
                      hello->member, hello->pid, other->second->pid));
    return false;
  }
  connection->member = hello->member;
  connection->pid = hello->pid;
  by_member_.emplace(hello->member, connection);
  disconnected_.erase(hello->member);
  return true;
}

bool MemberServer::one_waits() const {
  return std::ranges::any_of(connections_, &Connection::waits);
}

// --- to members ----------------------------------------------------------------------------------

Result<void> MemberServer::on_frame(const Frame& frame) {
  HVD_TRY(const auto message, parse_to_members(frame.payload));
  const auto kind = agent_frame_kind_of(frame.type);
  if (!kind) return fail("a frame for members is of a type that has none");
  std::string bytes;
  for (const auto member : message.members) {
    const auto found = by_member_.find(member);
    if (found == by_member_.end()) continue;
    if (bytes.empty()) bytes = encode_agent_frame({*kind, message.generation, message.payload});
    found->second->pending += bytes;
    found->second->waits = false;
    write(found->second);
  }
  return {};
}

// A member that reads nothing costs memory. It is given up before that is much.
void MemberServer::write(Connections::iterator connection) {
  auto& pending = connection->pending;
  std::size_t written = 0;
  while (written < pending.size()) {
    const auto count = ::send(connection->socket.get(), pending.data() + written,
                              pending.size() - written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;  // an error of the connection is seen by read()
    written += static_cast<std::size_t>(count);
  }
  pending.erase(0, written);
  if (pending.empty()) return connection->writable.disable();
  if (pending.size() > 2 * kMostToMember) return close(connection);
  connection->writable.enable();
}

}  // namespace hvdrun
