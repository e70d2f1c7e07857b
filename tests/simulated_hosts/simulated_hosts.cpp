#include "simulated_hosts/simulated_hosts.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hvdrun {
namespace {

// Runs a host's main function. Ends the process without destructors and atexit handlers.
[[noreturn]] void run_host(const SimulatedHosts::Main& main, std::size_t host, LinkEnd link) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int code = EXIT_FAILURE;
  try {
    code = main(host, std::move(link));
  } catch (const std::exception& error) {
    std::cerr << "host " << host << ": " << error.what() << std::endl;
  }
  ::_exit(code);
}

}  // namespace

SimulatedHosts::SimulatedHosts(std::size_t count, const Main& main, Events events)
    : events_(std::move(events)),
      hosts_(count),
      router_(count, [this](std::size_t host, FrameType type, const SharedPayload& payload) {
        hosts_[host].link->send_shared(type, static_cast<std::uint32_t>(host), payload);
      }) {
  ::signal(SIGPIPE, SIG_IGN);  // as in hvdrun: a write to a killed host must return an error
  // The links are made after the last fork: a child that destroyed one would change our event loop.
  std::vector<LinkEnd> ends;
  for (std::size_t host = 0; host < count; ++host) {
    auto pair = make_local_link();
    if (!pair) throw std::runtime_error(pair.error().message);
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("cannot fork");
    if (pid == 0) {
      pair->launcher = {};
      ends.clear();
      run_host(main, host, std::move(pair->agent));
    }
    hosts_[host].pid = pid;
    ends.push_back(std::move(pair->launcher));
  }
  for (std::size_t host = 0; host < count; ++host)
    hosts_[host].link = std::make_unique<Link>(
        loop_, std::move(ends[host]),
        Link::Events{[this, host](const Frame& frame) { take(host, frame); },
                     [this, host](const std::optional<Error>&) { lose(host); }});
}

SimulatedHosts::~SimulatedHosts() {
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    if (hosts_[host].pid == 0 || hosts_[host].status) continue;
    kill(host);
    status_of(host);
  }
}

void SimulatedHosts::take(std::size_t host, const Frame& frame) {
  const bool is_of_pmix =
      frame.type == FrameType::fence || frame.type == FrameType::fence_expired ||
      frame.type == FrameType::modex_request || frame.type == FrameType::modex_answer;
  if (!is_of_pmix) return events_.on_frame(host, frame);
  if (events_.on_exchange) events_.on_exchange(host, frame);
  if (auto taken = router_.take(host, frame); !taken) {
    if (!error_) error_ = taken.error();
    stop();
  }
}

void SimulatedHosts::lose(std::size_t host) {
  hosts_[host].gone = true;
  router_.host_lost(host);
  if (events_.on_gone) events_.on_gone(host);
  if (std::all_of(hosts_.begin(), hosts_.end(), [](const Host& one) { return one.gone; })) stop();
}

void SimulatedHosts::send_all(FrameType type, std::string_view payload) {
  for (std::size_t host = 0; host < hosts_.size(); ++host)
    hosts_[host].link->send(type, static_cast<std::uint32_t>(host), payload);
}

void SimulatedHosts::kill(std::size_t host) {
  ::kill(hosts_[host].pid, SIGKILL);
}

int SimulatedHosts::status_of(std::size_t host) {
  auto& status = hosts_[host].status;
  if (!status) {
    int waited = 0;
    while (::waitpid(hosts_[host].pid, &waited, 0) < 0 && errno == EINTR) {
    }
    status = waited;
  }
  return *status;
}

}  // namespace hvdrun
