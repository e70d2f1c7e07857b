#include "commands/commands.hpp"

#include "base/files.hpp"
#include "cli/help.hpp"
#include "commands/cancel.hpp"
#include "commands/follow.hpp"
#include "commands/help_topics.hpp"
#include "commands/jobs.hpp"
#include "commands/logs.hpp"
#include "commands/salloc.hpp"
#include "commands/sbatch.hpp"
#include "commands/scale.hpp"
#include "commands/subcommand.hpp"
#include "commands/templates.hpp"
#include "commands/top.hpp"
#include "commands/why.hpp"
#include "common/text.hpp"

#include <utility>

namespace hvdrun {
namespace {

Result<int> run_help(const std::vector<std::string>& args, const Environment& environment);

constexpr std::pair<std::string_view, Command> kCommands[] = {
    {"cancel", run_cancel}, {"follow", run_follow}, {"help", run_help},
    {"jobs", run_jobs},     {"logs", run_logs},     {"salloc", run_salloc},
    {"sbatch", run_sbatch}, {"scale", run_scale},   {"templates", run_templates},
    {"top", run_top},       {"why", run_why},
};

// hvdrun help [COMMAND | TOPIC]
Result<int> run_help(const std::vector<std::string>& args, const Environment& environment) {
  if (args.empty() || args.front() == "run" || args.front() == "help")
    return print_text(cli::help_text());
  if (const Command command = find_command(args.front()); command != nullptr)
    return command({"--help"}, environment);
  std::vector<std::string_view> names;
  for (const auto& [name, command] : kCommands) names.push_back(name);
  return show_topic(own_share_folder() / "hvdrun/doc", names, args.front(), environment);
}

}  // namespace

Command find_command(std::string_view name) {
  for (const auto& [known, command] : kCommands)
    if (known == name) return command;
  return nullptr;
}

}  // namespace hvdrun
