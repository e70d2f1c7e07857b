#include "job/unreached.hpp"

#include "slurm/host_list.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

namespace hvdrun {

namespace {

// `text` with `host` for each HOST that stands alone.
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

std::vector<std::string> unreached_lines(const std::vector<Unreached>& hosts) {
  std::vector<std::pair<std::string, std::vector<std::string>>> troubles;  // why, hosts
  for (const auto& each : hosts) {
    auto at = std::find_if(troubles.begin(), troubles.end(),
                           [&](const auto& trouble) { return trouble.first == each.why; });
    if (at == troubles.end()) at = troubles.insert(at, {each.why, {}});
    at->second.push_back(each.host);
  }
  std::vector<std::string> lines;
  lines.reserve(troubles.size());
  for (const auto& [why, names] : troubles)
    lines.push_back(fold_hosts(names) + ": " +
                    with_host(why, *std::min_element(names.begin(), names.end())));
  return lines;
}

std::string unreached_reason(const std::vector<Unreached>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const auto& each : hosts) names.push_back(each.host);
  return "could not start on " + fold_hosts(names);
}

}  // namespace hvdrun
