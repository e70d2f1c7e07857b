#include "agent/host_facts.hpp"

#include "base/system.hpp"
#include "common/interfaces.hpp"
#include "common/system.hpp"

#include <array>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kAllTimeout{3000};

bool is_number(const std::string& name) {
  std::array<unsigned char, 16> address{};
  return ::inet_pton(AF_INET, name.c_str(), address.data()) == 1 ||
         name.find(':') != std::string::npos;
}

std::string machine_identity() {
  std::string identity = boot_id();
  if (identity.empty()) return {};
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
  if (!names_.empty()) lookup_.emplace(names_);
}

HostFacts HostFactsSearch::finish() {
  HostFacts facts;
  facts.machine = machine_identity();
  facts.address = usable(route_.host);
  facts.launcher_address = usable(route_.launcher);
  if (auto names = common::interface_names()) facts.interfaces = std::move(*names);
  const auto deadline = std::chrono::steady_clock::now() + kAllTimeout;
  for (const auto& name : names_) {
    const bool late = std::chrono::steady_clock::now() > deadline;
    const auto found = lookup_->next(late ? std::chrono::milliseconds(0) : kAnswerPatience);
    if (found.empty())
      facts.unresolved.push_back(name);
    else
      addresses_.emplace(name, found.front());
  }
  return facts;
}

}  // namespace hvdrun
