#include "control/metrics_server.hpp"

#include "common/net/address.hpp"
#include "common/net/tcp.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/socket.h>

namespace hvdrun {
namespace {

using common::Acceptor;
using std::chrono::milliseconds;

constexpr std::size_t kMostScrapers = 32;  // whose request has come; as many that have not asked
constexpr std::size_t kMostAtOnce = 64;    // before the loop handles its other events
constexpr std::size_t kLongestRequest = 16u << 10;  // bytes
constexpr milliseconds kScrapeTimeout{10'000};
constexpr std::string_view kEndOfRequest = "\r\n\r\n";

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

// A connection whose request has not come yet.
class MetricsServer::Request final : public common::Candidate {
 public:
  explicit Request(Fd socket) : socket_(std::move(socket)) {}

  State advance() override {
    std::array<char, 4 << 10> buffer;  // NOLINT: filled by recv
    const auto count = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && would_block(errno)) return State::waiting;
    if (count <= 0) return State::refused;
    text_.append(buffer.data(), static_cast<std::size_t>(count));
    if (text_.size() > kLongestRequest) return State::refused;
    return text_.find(kEndOfRequest) == std::string::npos ? State::waiting : State::admitted;
  }
  // There is no key: any process of this machine may ask.
  bool has_shown_key() const override { return false; }
  int socket() const override { return socket_.get(); }

  // Hands over the connection. Call it once, after State::admitted.
  Fd take() { return std::move(socket_); }
  const std::string& text() const { return text_; }

 private:
  Fd socket_;
  std::string text_;
};

// A connection whose request has come.
struct MetricsServer::Client {
  Client(const EventLoop& loop, Fd its_socket, std::function<void()> on_timeout)
      : socket(std::move(its_socket)), timeout(loop, std::move(on_timeout)) {}

  Fd socket;
  std::string answer = {};  // that the kernel has not taken; "": it is being made
  FdEvent writable = {};
  Timer timeout;
};

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const EventLoop& loop,
                                                            std::uint16_t port, Ask ask) {
  const auto refused = [port](int error) {
    return fail_errno(fmt::format("cannot listen at 127.0.0.1:{} (--metrics)", port), error);
  };
  auto listener = common::make_listener(*common::parse_address("127.0.0.1", port));
  if (!listener) return refused(listener.error());
  const auto address = common::local_address(listener->get());
  std::vector<Fd> listeners;
  listeners.push_back(std::move(*listener));
  auto acceptor =
      Acceptor::open(std::move(listeners), {kMostScrapers, kScrapeTimeout},
                     [](Fd socket) { return std::make_unique<Request>(std::move(socket)); });
  if (!acceptor) return refused(acceptor.error());
  return std::unique_ptr<MetricsServer>(new MetricsServer(
      loop, std::move(*acceptor), address ? address->port() : port, std::move(ask)));
}

MetricsServer::MetricsServer(const EventLoop& loop, std::unique_ptr<Acceptor> acceptor,
                             std::uint16_t port, Ask ask)
    : loop_(loop),
      acceptor_(std::move(acceptor)),
      port_(port),
      ask_(std::move(ask)),
      acceptable_(loop, acceptor_->fd(), FdEvent::readable, [this] { accept(); }),
      wake_(loop, [this] { accept(); }) {
  acceptable_.enable();
}

MetricsServer::~MetricsServer() = default;

void MetricsServer::accept() {
  for (std::size_t i = 0; i < kMostAtOnce; ++i) {
    const auto admitted = acceptor_->next();
    if (!admitted) break;
    auto& request = static_cast<Request&>(*admitted);
    add(request.take(), request.text());
  }
  const auto wake = acceptor_->wake();
  if (!wake) return wake_.cancel();
  const auto left = std::chrono::ceil<milliseconds>(*wake - Acceptor::Clock::now());
  wake_.start(std::max(left, milliseconds(0)));
}

// For one more than there is room for, disconnects the oldest that does not take its answer.
void MetricsServer::add(Fd socket, const std::string& request) {
  if (clients_.size() >= kMostScrapers) {
    const auto stuck = std::ranges::find_if(
        clients_, [](const auto& client) { return !client.second.answer.empty(); });
    clients_.erase(stuck != clients_.end() ? stuck : clients_.begin());
  }
  const auto number = next_number_++;
  auto& client =
      clients_
          .try_emplace(number, loop_, std::move(socket), [this, number] { clients_.erase(number); })
          .first->second;
  client.writable =
      FdEvent(loop_, client.socket.get(), FdEvent::writable, [this, number] { write(number); });
  client.timeout.start(kScrapeTimeout);
  take(number, request);
}

void MetricsServer::take(std::uint64_t number, const std::string& request) {
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
