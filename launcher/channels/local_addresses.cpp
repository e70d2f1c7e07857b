#include "channels/local_addresses.hpp"

#include "base/system.hpp"
#include "common/interfaces.hpp"
#include "resources/interface_choice.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace hvdrun {
namespace {

// This many hosts are probed, spread evenly over all.
constexpr std::size_t kProbed = 8;
// Any port: nothing is sent.
constexpr const char* kPort = "9";

// Returns "10.0.0.1" or "fd00::2".
std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(address.ss_family, address_bytes(address).data(), text.data(), text.size());
  return text.data();
}

void add_once(std::vector<std::string>& list, std::string text) {
  if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end())
    list.push_back(std::move(text));
}

std::vector<std::string> some_of(const std::vector<std::string>& hosts) {
  if (hosts.size() <= kProbed) return hosts;
  std::vector<std::string> some;
  for (std::size_t i = 0; i < kProbed; ++i)
    some.push_back(hosts[i * (hosts.size() - 1) / (kProbed - 1)]);
  return some;
}

// Runs in the child. Writes one address a line, each as soon as it is known, and exits.
[[noreturn]] void probe(const std::vector<std::string>& hosts, int answers) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& host : some_of(hosts)) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    if (::getaddrinfo(host.c_str(), kPort, &hints, &found) != 0) continue;
    std::string lines;
    for (const addrinfo* peer = found; peer != nullptr; peer = peer->ai_next)
      if (const auto own = common::address_towards(*peer->ai_addr, peer->ai_addrlen))
        lines += text_of(*own) + "\n";
    ::freeaddrinfo(found);
    if (::write(answers, lines.data(), lines.size()) < 0) break;
  }
  ::_exit(0);
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (auto newline = text.find('\n'); newline != std::string_view::npos;
       newline = text.find('\n')) {
    add_once(lines, std::string(text.substr(0, newline)));
    text.remove_prefix(newline + 1);
  }
  return lines;
}

}  // namespace

Result<std::vector<NamedAddress>> named_addresses() {
  const auto found = common::interface_addresses();
  if (!found) return fail_errno("cannot list this host's network interfaces", found.error());
  std::vector<NamedAddress> all;
  for (const auto& entry : *found) all.push_back({entry.interface, text_of(entry.address)});
  return all;
}

Result<std::vector<std::string>> addresses_of_interfaces(const std::vector<NamedAddress>& all,
                                                         std::string_view names) {
  std::vector<std::string> addresses;
  std::vector<std::string> known;
  for (const auto& entry : all) add_once(known, entry.interface);
  auto chosen = choose_interfaces(names, known);
  if (!chosen) return fail("this host has " + chosen.error().message, chosen.error().exit_code);
  for (const auto& name : *chosen)
    for (const auto& entry : all)
      if (entry.interface == name) add_once(addresses, entry.address);
  return addresses;
}

bool is_loopback(std::string_view address) {
  return address == "::1" || address.substr(0, 4) == "127.";
}

std::vector<std::string> without_loopback(const std::vector<std::string>& addresses) {
  std::vector<std::string> kept;
  for (const auto& address : addresses)
    if (!is_loopback(address)) add_once(kept, address);
  return kept.empty() ? addresses : kept;
}

std::vector<std::string> all_addresses(const std::vector<NamedAddress>& all) {
  std::vector<std::string> addresses;
  for (const bool loopback : {false, true})
    for (const auto& entry : all)
      if (is_loopback(entry.address) == loopback) add_once(addresses, entry.address);
  return addresses;
}

Result<std::unique_ptr<RouteProbe>> RouteProbe::start(const EventLoop& loop,
                                                      const std::vector<std::string>& hosts,
                                                      std::chrono::milliseconds timeout,
                                                      OnFound on_found) {
  HVD_TRY(Pipe answers, make_pipe());
  HVD_CHECK(set_nonblocking(answers.read.get()));
  const pid_t child = ::fork();
  if (child < 0) return fail_errno("cannot start a process that looks for the hosts", errno);
  if (child == 0) probe(hosts, answers.write.get());
  std::unique_ptr<RouteProbe> made(
      new RouteProbe(loop, std::move(answers.read), child, std::move(on_found)));
  made->timer_.start(timeout);
  return made;
}

RouteProbe::RouteProbe(const EventLoop& loop, Fd answers, pid_t child, OnFound on_found)
    : answers_(std::move(answers)),
      child_(child),
      on_found_(std::move(on_found)),
      readable_(loop, answers_.get(), FdEvent::readable, [this] { on_readable(); }),
      timer_(loop, [this] { finish(); }) {
  readable_.enable();
}

RouteProbe::~RouteProbe() {
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void RouteProbe::on_readable() {
  std::array<char, 4096> buffer;  // NOLINT: filled by read
  const ssize_t got = ::read(answers_.get(), buffer.data(), buffer.size());
  if (got > 0) text_.append(buffer.data(), static_cast<std::size_t>(got));
  if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) finish();
}

void RouteProbe::finish() {
  readable_.disable();
  timer_.cancel();
  const auto on_found = std::move(on_found_);
  on_found(without_loopback(lines_of(text_)));  // may destroy this
}

}  // namespace hvdrun
