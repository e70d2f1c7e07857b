#include "job/unreached_hosts.hpp"

#include "base/host_list.hpp"
#include "protocol/heartbeat.hpp"

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Returns the text with `host` in place of each HOST that is a word of its own.
std::string with_host(std::string text, const std::string& host) {
  constexpr std::string_view kHost = "HOST";
  const auto is_part = [&text](std::size_t at) {
    return at < text.size() && (std::isalnum(static_cast<unsigned char>(text[at])) != 0 ||
                                text[at] == '_' || text[at] == '-');
  };
  for (auto at = text.find(kHost); at != std::string::npos; at = text.find(kHost, at)) {
    const bool is_word = (at == 0 || !is_part(at - 1)) && !is_part(at + kHost.size());
    if (is_word) text.replace(at, kHost.size(), host);
    at += is_word ? host.size() : kHost.size();
  }
  return text;
}

}  // namespace

std::vector<std::string> unreached_lines(const std::vector<UnreachableHost>& hosts) {
  std::vector<std::pair<std::string, std::vector<std::string>>> causes;  // why, hosts
  for (const auto& each : hosts) {
    auto at = std::find_if(causes.begin(), causes.end(),
                           [&](const auto& cause) { return cause.first == each.why; });
    if (at == causes.end()) at = causes.insert(at, {each.why, {}});
    at->second.push_back(each.host);
  }
  std::vector<std::string> lines;
  lines.reserve(causes.size());
  for (const auto& [why, names] : causes)
    lines.push_back(fold_hosts(names) + ": " +
                    with_host(why, *std::min_element(names.begin(), names.end())));
  return lines;
}

std::chrono::milliseconds time_of_abandoned_ranks(const JobSpec& spec) {
  return kSilentTimeouts * spec.remote.host_timeout + spec.stop.grace_period();
}

std::string abandoned_text(const std::vector<std::string>& hosts, const JobSpec& spec) {
  if (hosts.empty()) return {};
  const auto time = std::chrono::ceil<std::chrono::seconds>(time_of_abandoned_ranks(spec));
  return fmt::format(
      "ranks may still run on {}, for up to {} s: hvdrun there ends them when it has heard nothing "
      "for {} times --host-timeout",
      fold_hosts(hosts), time.count(), kSilentTimeouts);
}

std::string unreached_reason(const std::vector<UnreachableHost>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const auto& each : hosts) names.push_back(each.host);
  return "could not start on " + fold_hosts(names);
}

std::vector<std::string> unconfirmed_lines(const std::vector<UnconfirmedHost>& hosts,
                                           const std::vector<RankReport>& ranks) {
  std::vector<std::string> lines;
  for (const auto& [host, agent, ranks_ended] : hosts) {
    auto line = fmt::format("{} has not confirmed the end of pid {} (hvdrun-agent)", host, agent);
    for (const auto& rank : ranks)
      if (!ranks_ended && rank.host == host && rank.pid != 0 && !rank.exited)
        line += fmt::format(", {} (rank {})", rank.pid, rank.placement.rank);
    lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace hvdrun
