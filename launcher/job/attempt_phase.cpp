#include "job/attempt_phase.hpp"

#include "base/severity.hpp"
#include "job/restart.hpp"

#include <chrono>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

std::string seconds_text(std::chrono::milliseconds time) {
  const auto seconds = std::chrono::duration<double>(time).count();
  return seconds < 100 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

StopCause agent_failure(const Error& error) {
  return {kind_of_agent_failure(error.exit_code), error.message, error.exit_code};
}

StopCause lost_agent(const AgentState& agent, const std::string& why) {
  return {EndKind::agent_lost,
          fmt::format("the agent on {} was lost{}", agent.host.name, why.empty() ? "" : ": " + why),
          kExitLauncher};
}

void AttemptParts::note_problem(const std::string& text) const {
  note(warning_text(text));
  if (job.on_report_note) job.on_report_note(text);
}

void AttemptParts::stop_for_start_timeout(std::vector<UnreachableHost> unreached) const {
  for (const auto& agent : agents->every())
    if (const auto stage = agents->stage(agent); !agent.life.gone() && !stage.empty())
      unreached.push_back({agent.host.name, stage});
  for (const auto& line : unreached_lines(unreached)) note(error_text(line));
  stop({EndKind::start_timeout,
        fmt::format("not all ranks had started after {} (--start-timeout)",
                    seconds_text(job.spec.start_timeout)),
        kExitTimeout});
}

}  // namespace hvdrun
