#include "control/control_server.hpp"

#include "control/control_client.hpp"
#include "control/control_folder.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr int kBacklog = 64;
constexpr std::size_t kMostClients = 256;
constexpr milliseconds kAcceptPause{100};
// A client that takes nothing of its answer for this long is disconnected.
constexpr milliseconds kClientTimeout{10'000};
// How often to look whether the socket's file is still there.
constexpr milliseconds kFileInterval{30'000};

bool is_own_peer(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.uid == ::geteuid();
}

}  // namespace

struct ControlServer::Client {
  Fd socket;
  std::string request = {};  // as far as it has come
  std::string answer = {};   // that the kernel has not taken
  bool is_stuck = false;     // nothing of the answer was taken since the last look
  EventLoop::Clock::time_point heard = {};
  FdEvent readable = {};
  FdEvent writable = {};
};

Result<std::unique_ptr<ControlServer>> ControlServer::start(const EventLoop& loop,
                                                            const Environment& environment,
                                                            const std::string& job_id,
                                                            Handle handle) {
  std::unique_ptr<ControlServer> server(
      new ControlServer(loop, environment, job_id, std::move(handle)));
  HVD_CHECK(server->listen());
  server->file_timer_.start(kFileInterval);
  return server;
}

ControlServer::ControlServer(const EventLoop& loop, const Environment& environment,
                             const std::string& job_id, Handle handle)
    : loop_(loop),
      environment_(environment),
      name_(control_name(::getpid(), job_id)),
      handle_(std::move(handle)),
      accept_again_(loop, [this] { acceptable_.enable(); }),
      clients_timer_(loop, [this] { look_after(); }),
      file_timer_(loop, [this] { look_at_folder(); }) {}

// Leaves no empty folder.
ControlServer::~ControlServer() {
  if (is_there()) ::unlink(path_.c_str());
  if (!path_.empty()) ::rmdir(path_.parent_path().c_str());
}

// --- the socket ----------------------------------------------------------------------------------

Result<void> ControlServer::listen() {
  Error first;
  const auto listen_in_one = [&](const std::vector<std::filesystem::path>& folders) {
    return std::ranges::any_of(folders, [&](const auto& folder) {
      auto done = listen_in(folder);
      if (!done) done = listen_in(folder);  // another hvdrun that ended may have removed the folder
      if (!done && first.message.empty()) first = std::move(done).error();
      return static_cast<bool>(done);
    });
  };
  if (listen_in_one(control_folders(environment_))) return {};
  if (listen_in_one(other_control_folders(environment_))) return {};
  const auto other = make_other_control_folder(environment_);
  if (!other) return first;
  auto done = listen_in(*other);
  if (!done) ::rmdir(other->c_str());
  return done ? done : first;
}

// The socket gets its name when it takes connections. Otherwise a command could find it before,
// and take it for that of a killed hvdrun.
Result<void> ControlServer::listen_in(const std::filesystem::path& folder) {
  HVD_TRY(const Fd opened, make_control_folder(folder));
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto hidden = "." + name_;
  const auto address = control_address(opened, hidden);
  struct stat status {};
  if (!socket ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), kBacklog) != 0 ||
      ::renameat(opened.get(), hidden.c_str(), opened.get(), name_.c_str()) != 0 ||
      ::fstatat(opened.get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    const int error = errno;
    ::unlinkat(opened.get(), hidden.c_str(), 0);
    return fail_errno("cannot listen in " + folder.string(), error);
  }
  acceptable_.reset();
  listener_ = std::move(socket);
  path_ = folder / name_;
  inode_ = status.st_ino;
  acceptable_ = FdEvent(loop_, listener_.get(), FdEvent::readable, [this] { accept(); });
  acceptable_.enable();
  return {};
}

// Without this, sockets of killed hvdruns would stay until the user looks into a job.
void ControlServer::look_at_folder() {
  file_timer_.start(kFileInterval);
  if (!is_there()) listen();
  if (std::exchange(has_cleaned_up_, true)) return;
  const auto folder = open_control_folder(path_.parent_path());
  if (!folder) return;
  for (const auto& name : control_names(*folder))
    if (name != name_) ControlClient::connect({path_.parent_path(), name});
}

bool ControlServer::is_there() const {
  struct stat status {};
  return !path_.empty() && ::lstat(path_.c_str(), &status) == 0 && status.st_ino == inode_;
}

// --- clients -------------------------------------------------------------------------------------

void ControlServer::accept() {
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (would_block(errno)) return;
    acceptable_.disable();
    return accept_again_.start(kAcceptPause);
  }
  if (!is_own_peer(socket.get())) return;
  if (clients_.size() >= kMostClients)
    clients_.erase(std::ranges::min_element(
        clients_, {}, [](const auto& client) { return client.second.heard; }));
  const auto number = next_number_++;
  auto& client = clients_[number];
  client.socket = std::move(socket);
  client.heard = loop_.now();
  const int fd = client.socket.get();
  client.readable = FdEvent(loop_, fd, FdEvent::readable, [this, number] { read(number); });
  client.writable = FdEvent(loop_, fd, FdEvent::writable, [this, number] { write(number); });
  client.readable.enable();
  if (!clients_timer_.pending()) clients_timer_.start(kClientTimeout);
}

// What comes after the request before its answer breaks the rules.
void ControlServer::read(std::uint64_t number) {
  auto& client = clients_.at(number);
  std::array<char, 16 << 10> buffer;  // NOLINT: filled by recv
  const auto count = ::recv(client.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0 && would_block(errno)) return;
  if (count <= 0) {
    clients_.erase(number);
    return;
  }
  client.request.append(buffer.data(), static_cast<std::size_t>(count));
  const auto end = client.request.find('\n');
  if (end == std::string::npos && client.request.size() <= kMostRequest) return;
  if (end == std::string::npos || end + 1 != client.request.size()) {
    clients_.erase(number);
    return;
  }
  client.request.pop_back();
  client.heard = loop_.now();
  client.readable.disable();
  take(number, std::exchange(client.request, {}));
}

void ControlServer::take(std::uint64_t number, const std::string& line) {
  const auto answer = [this, lives = std::weak_ptr<char>(lives_),
                       number](const Result<std::string>& text) {
    if (!lives.expired()) reply(number, text);
  };
  const auto request = parse_request(line);
  if (!request) return answer(request.error());
  try {
    handle_(*request, answer);
  } catch (const ControlJson::exception&) {
    answer(fail(fmt::format("the arguments of \"{}\" are malformed", request->word), kExitUsage));
  }
}

void ControlServer::reply(std::uint64_t number, const Result<std::string>& answer) {
  const auto found = clients_.find(number);
  if (found == clients_.end() || !found->second.answer.empty()) return;
  found->second.answer = answer ? pack_answer(*answer) : pack_error(answer.error());
  found->second.is_stuck = false;
  write(number);
}

void ControlServer::write(std::uint64_t number) {
  auto& client = clients_.at(number);
  std::size_t written = 0;
  while (written < client.answer.size()) {
    const auto count = ::send(client.socket.get(), client.answer.data() + written,
                              client.answer.size() - written, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && !would_block(errno)) {
      clients_.erase(number);
      return;
    }
    if (count < 0) break;
    written += static_cast<std::size_t>(count);
  }
  client.answer.erase(0, written);
  if (written > 0) client.is_stuck = false;
  if (!client.answer.empty()) return client.writable.enable();
  client.writable.disable();
  client.readable.enable();
}

void ControlServer::look_after() {
  std::erase_if(clients_, [](const auto& each) { return each.second.is_stuck; });
  for (auto& [number, client] : clients_) client.is_stuck = !client.answer.empty();
  if (!clients_.empty()) clients_timer_.start(kClientTimeout);
}

}  // namespace hvdrun
