#include "agent/host_facts.hpp"

#include "base/system.hpp"
#include "common/interfaces.hpp"
#include "common/system.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kResolveTimeout{3000};
constexpr char kResolved = '+';
constexpr char kUnresolved = '-';

bool is_number(const std::string& name) {
  std::array<unsigned char, 16> address{};
  return ::inet_pton(AF_INET, name.c_str(), address.data()) == 1 ||
         name.find(':') != std::string::npos;
}

bool can_resolve(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return false;
  ::freeaddrinfo(found);
  return true;
}

// Runs in the child process. Writes a character for each name, as soon as it is known.
[[noreturn]] void resolve(const std::vector<std::string>& names, int answers) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (const auto& name : names) {
    const char answer = can_resolve(name) ? kResolved : kUnresolved;
    if (::write(answers, &answer, 1) != 1) break;
  }
  ::_exit(0);
}

std::string machine_identity() {
  std::string identity;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  if (!(boot >> identity)) return {};
  for (const char* space : {"mnt", "net", "pid"}) {
    std::error_code error;
    const auto link = std::filesystem::read_symlink(fmt::format("/proc/self/ns/{}", space), error);
    if (error) return {};
    identity += " " + link.string();
  }
  return identity + fmt::format(" {} {}", ::getuid(), local_host_name());
}

// Returns the address if other hosts can use it: "" for loopback, and for an address of one link.
std::string usable(std::string address) {
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 on a socket of IPv6
  if (address.starts_with(kMapped)) address.erase(0, kMapped.size());
  const bool is_of_this_host = address.starts_with("127.") || address == "::1";
  return is_of_this_host || address.find('%') != std::string::npos ? "" : address;
}

}  // namespace

HostFactsSearch::HostFactsSearch(LinkRoute route, const std::vector<std::string>& names)
    : route_(std::move(route)) {
  for (const auto& name : names)
    if (!is_number(name)) names_.push_back(name);
  if (names_.empty()) return;
  auto answers = make_pipe();
  if (answers) child_ = ::fork();
  if (child_ == 0) resolve(names_, answers->write.get());
  if (child_ < 0)
    names_.clear();
  else
    answers_ = std::move(answers->read);
}

HostFactsSearch::~HostFactsSearch() {
  end_child();
}

void HostFactsSearch::end_child() {
  const auto child = std::exchange(child_, -1);
  if (child <= 0) return;
  ::kill(child, SIGKILL);
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

HostFacts HostFactsSearch::finish() {
  HostFacts facts;
  facts.machine = machine_identity();
  facts.address = usable(route_.host);
  facts.launcher_address = usable(route_.launcher);
  if (auto names = common::interface_names()) facts.interfaces = std::move(*names);
  std::string answers;
  const auto deadline = std::chrono::steady_clock::now() + kResolveTimeout;
  while (answers.size() < names_.size()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waiting{answers_.get(), POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::max<long>(left.count(), 0)));
    if (ready == 0) break;
    std::array<char, 256> some;  // NOLINT: filled by read
    const ssize_t got = ready < 0 ? -1 : ::read(answers_.get(), some.data(), some.size());
    if (got > 0) answers.append(some.data(), static_cast<std::size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) break;
  }
  for (std::size_t i = 0; i < names_.size(); ++i)
    if (i >= answers.size() || answers[i] != kResolved) facts.unresolved.push_back(names_[i]);
  end_child();
  return facts;
}

}  // namespace hvdrun
