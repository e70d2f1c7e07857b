#include "control/metrics_server.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

constexpr int kScrapeBacklog = 16;
constexpr std::size_t kMostScrapers = 32;
constexpr std::size_t kLongestRequest = 16u << 10;  // bytes
constexpr milliseconds kScrapePause{100};
constexpr milliseconds kScrapeTimeout{10'000};

std::string response(std::string_view status, std::string_view type, std::string_view body,
                     bool with_body = true) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, type, body.size(), with_body ? body : std::string_view());
}

std::string plain(std::string_view status, std::string_view body) {
  return response(status, "text/plain; charset=utf-8", body);
}

// Returns the value of a header; "" if the request has none.
std::string header(std::string_view request, std::string_view name) {
  std::string lower(request);
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto at = lower.find(fmt::format("\r\n{}:", name));
  if (at == std::string::npos) return {};
  const auto from = at + name.size() + 3;
  return lower.substr(from, lower.find("\r\n", from) - from);
}

}  // namespace

struct MetricsServer::Client {
  Client(const EventLoop& loop, Fd its_socket, std::function<void()> on_timeout)
      : socket(std::move(its_socket)), timeout(loop, std::move(on_timeout)) {}

  Fd socket;
  std::string request = {};
  std::string answer = {};
  FdEvent readable = {};
  FdEvent writable = {};
  Timer timeout;
};

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const EventLoop& loop,
                                                            std::uint16_t port, Ask ask) {
  Fd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (socket) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (!socket ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), kScrapeBacklog) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return fail_errno(fmt::format("cannot listen at 127.0.0.1:{} (--metrics)", port), errno);
  return std::unique_ptr<MetricsServer>(
      new MetricsServer(loop, std::move(socket), ntohs(address.sin_port), std::move(ask)));
}

MetricsServer::MetricsServer(const EventLoop& loop, Fd listener, std::uint16_t port, Ask ask)
    : loop_(loop),
      listener_(std::move(listener)),
      port_(port),
      ask_(std::move(ask)),
      acceptable_(loop, listener_.get(), FdEvent::readable, [this] { accept(); }),
      accept_again_(loop, [this] { acceptable_.enable(); }) {
  acceptable_.enable();
}

MetricsServer::~MetricsServer() = default;

void MetricsServer::accept() {
  Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (would_block(errno) || errno == ECONNABORTED || errno == EINTR) return;
    acceptable_.disable();
    return accept_again_.start(kScrapePause);
  }
  if (clients_.size() >= kMostScrapers) clients_.erase(clients_.begin());  // the oldest
  const auto number = next_number_++;
  auto& client =
      clients_
          .try_emplace(number, loop_, std::move(socket), [this, number] { clients_.erase(number); })
          .first->second;
  const int fd = client.socket.get();
  client.readable = FdEvent(loop_, fd, FdEvent::readable, [this, number] { read(number); });
  client.writable = FdEvent(loop_, fd, FdEvent::writable, [this, number] { write(number); });
  client.readable.enable();
  client.timeout.start(kScrapeTimeout);
}

void MetricsServer::read(std::uint64_t number) {
  auto& client = clients_.at(number);
  std::array<char, 4 << 10> buffer;  // NOLINT: filled by recv
  const auto count = ::recv(client.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (count < 0 && would_block(errno)) return;
  if (count > 0) client.request.append(buffer.data(), static_cast<std::size_t>(count));
  if (count <= 0 || client.request.size() > kLongestRequest) {
    clients_.erase(number);
    return;
  }
  if (client.request.find("\r\n\r\n") == std::string::npos) return;
  client.readable.disable();
  take(number);
}

void MetricsServer::take(std::uint64_t number) {
  const std::string& request = clients_.at(number).request;
  const std::string_view line = std::string_view(request).substr(0, request.find("\r\n"));
  const bool is_head = line.starts_with("HEAD ");
  if (!is_head && !line.starts_with("GET "))
    return reply(number, plain("405 Method Not Allowed", "only GET and HEAD\n"));
  auto path = line.substr(line.find(' ') + 1);
  path = path.substr(0, path.find_first_of(" ?"));
  if (path != "/metrics") return reply(number, plain("404 Not Found", "the path is /metrics\n"));
  const auto format = metrics_format_for(header(request, "accept"));
  ask_([this, lives = std::weak_ptr<char>(lives_), number, format, is_head](const JobNow& now) {
    if (lives.expired()) return;
    reply(number, response("200 OK", media_type(format), metrics_text(now, format), !is_head));
  });
}

void MetricsServer::reply(std::uint64_t number, std::string text) {
  const auto found = clients_.find(number);
  if (found == clients_.end()) return;
  found->second.answer = std::move(text);
  found->second.timeout.start(kScrapeTimeout);
  write(number);
}

// A client that takes nothing is disconnected by its timer.
void MetricsServer::write(std::uint64_t number) {
  auto& client = clients_.at(number);
  while (!client.answer.empty()) {
    const auto count = ::send(client.socket.get(), client.answer.data(), client.answer.size(),
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block(errno)) return client.writable.enable();
    if (count < 0) break;
    client.answer.erase(0, static_cast<std::size_t>(count));
  }
  clients_.erase(number);
}

}  // namespace hvdrun
