#include "control/control_client.hpp"

#include "base/process_state.hpp"
#include "control/control_folder.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// An hvdrun that is found stopped so many times in a row, 100 ms apart, is not waited for. The user
// may have typed Ctrl-Z, and fg soon after.
constexpr int kLongestStop = 30;

// Returns why the process cannot answer; "": it can.
std::string why_still(pid_t pid) {
  switch (process_state(pid)) {
    case 'T':
      return "is stopped";
    case 't':
      return "is stopped by a debugger";
    default:
      return {};
  }
}

}  // namespace

Result<ControlClient> ControlClient::connect(const ControlSocket& where) {
  HVD_TRY(const Fd folder, open_control_folder(where.folder));
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return fail_errno("cannot make a socket", errno);
  const auto address = control_address(folder, where.name);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    if (error == ECONNREFUSED) ::unlinkat(folder.get(), where.name.c_str(), 0);
    if (error == ECONNREFUSED || error == ENOENT) return fail("");
    const auto pid = pid_in(where.name).value_or(0);
    if (error == EAGAIN)
      return fail(fmt::format("hvdrun {} {}takes no connections now", pid,
                              why_still(pid).empty() ? "" : why_still(pid) + " and "));
    return fail_errno(fmt::format("cannot reach hvdrun {}", pid), error);
  }
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      peer.uid != ::geteuid())
    return fail("");  // what is not ours is not asked
  return ControlClient(std::move(socket), peer.pid);
}

Error ControlClient::end() {
  ended_ = true;
  return fail("the job has ended");
}

Error ControlClient::silence() const {
  const auto still = why_still(pid_);
  if (still.empty()) return fail(fmt::format("hvdrun {} does not answer", pid_));
  return fail(fmt::format("hvdrun {} {} and does not answer{}", pid_, still,
                          process_state(pid_) == 'T'
                              ? fmt::format("; kill -CONT {} continues it", pid_)
                              : std::string()));
}

// A request fits into an empty socket. If the job has ended, poll() says so after the last answer.
Result<void> ControlClient::send(std::string_view word, const ControlJson& arguments) {
  const auto line = pack_request(word, arguments);
  const auto sent = ::send(socket_.get(), line.data(), line.size(), MSG_NOSIGNAL);
  if (sent == static_cast<ssize_t>(line.size())) return {};
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return {};
  return silence();
}

std::optional<Result<ControlJson>> ControlClient::poll() {
  while (true) {
    if (const auto newline = received_.find('\n'); newline != std::string::npos) {
      const auto line = received_.substr(0, newline);
      received_.erase(0, newline + 1);
      return parse_answer(line);
    }
    if (received_.size() > kMostAnswer) return fail("the job's answer is too long");
    std::array<char, 64 << 10> buffer;  // NOLINT: filled by recv
    const auto count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count > 0)
      received_.append(buffer.data(), static_cast<std::size_t>(count));
    else if (count == 0 || !would_block(errno))
      return end();
    else
      return std::nullopt;
  }
}

Result<ControlJson> ControlClient::receive(Patience& patience) {
  int stopped = 0;
  while (true) {
    if (auto answer = poll()) return std::move(*answer);
    if (patience.wait_a_moment(socket_.get(), POLLIN)) continue;
    stopped = why_still(pid_).empty() ? 0 : stopped + 1;
    if (patience.is_over() || stopped >= kLongestStop) return silence();
  }
}

Result<ControlJson> ControlClient::ask(std::string_view word, const ControlJson& arguments,
                                       std::chrono::milliseconds timeout) {
  HVD_CHECK(send(word, arguments));
  Patience patience(timeout);
  return receive(patience);
}

}  // namespace hvdrun
