#include "commands/commands.hpp"

#include "commands/cancel.hpp"
#include "commands/follow.hpp"
#include "commands/jobs.hpp"
#include "commands/salloc.hpp"
#include "commands/sbatch.hpp"
#include "commands/scale.hpp"
#include "commands/templates.hpp"

#include <utility>

namespace hvdrun {
namespace {

constexpr std::pair<std::string_view, Command> kCommands[] = {
    {"cancel", run_cancel},       {"follow", run_follow}, {"jobs", run_jobs},
    {"salloc", run_salloc},       {"sbatch", run_sbatch}, {"scale", run_scale},
    {"templates", run_templates},
};

}  // namespace

Command find_command(std::string_view name) {
  for (const auto& [known, command] : kCommands)
    if (known == name) return command;
  return nullptr;
}

}  // namespace hvdrun
