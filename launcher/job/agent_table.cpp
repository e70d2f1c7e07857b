#include "job/agent_table.hpp"

#include "common/text.hpp"

#include <cstddef>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::size_t kMostAgents = 16;

}  // namespace

std::vector<std::string> agent_table(const Agents& agents) {
  std::vector<TableRow> rows{{"  AGENT ON", "PID", "STARTED BY", "LINK"}};
  std::size_t more = 0;
  for (const auto& agent : agents.every()) {
    if (!agent.life.has(AgentPhase::greeted)) continue;
    if (rows.size() > kMostAgents)
      ++more;
    else
      rows.push_back({"  " + agent.host.name, std::to_string(agent.pid),
                      std::string(agent.channel->name()), agent.route});
  }
  auto lines = table_lines(rows);
  if (more > 0) lines.push_back(fmt::format("  and {}", plural(more, "more agent")));
  return lines;
}

std::string missing_pmix_text(const Agents& agents) {
  std::vector<std::string> hosts;
  std::string error;
  for (const auto& agent : agents.every()) {
    if (agent.pmix_error.empty() || agent.dismissed) continue;
    if (hosts.empty()) error = agent.pmix_error;
    hosts.push_back(agent.host.name);
  }
  if (hosts.empty()) return "";
  if (agents.size() == 1) return "continuing without PMIx: " + error;
  return fmt::format("continuing without PMIx on all hosts: {}: {}", fmt::join(hosts, ","), error);
}

}  // namespace hvdrun
