#include "commands/why.hpp"

#include "commands/look_into_job.hpp"
#include "commands/subcommand.hpp"
#include "control/control_client.hpp"

#include <chrono>
#include <string_view>

namespace hvdrun {
namespace {

constexpr std::string_view kWhyHelp = R"(usage: hvdrun why [--json] [JOB]

Says which rank the others of a running job wait for, and what it does. Then prints the
stacks of all ranks, in Python and in C++, equal ones once. The job runs on: each rank is
stopped for at most 50 ms. Works for every program, whether it uses hvd or not.

  JOB     the pid of its hvdrun on this machine, or the number of its SLURM job, which may run
          on other hosts; needed if several of your jobs run
  --json  prints the same as JSON, on one line
  --help  this text

See also: hvdrun help hangs; for a single process: hvdrun help stacks
)";

// More than hvdrun gives the agents.
constexpr std::chrono::milliseconds kLimit{20'000};

std::string text_of(const ControlJson& verdict) {
  std::string text = verdict.value("text", "") + "\n";
  const auto add = [&](const char* name, std::string_view before) {
    if (const auto lines = verdict.find(name); lines != verdict.end() && lines->is_array())
      for (const auto& line : *lines)
        if (line.is_string()) text.append(before).append(line.get<std::string>()) += "\n";
  };
  add("problems", "not seen: ");
  add("stacks", "");
  return text;
}

}  // namespace

Result<int> run_why(const std::vector<std::string>& args, const Environment& environment) {
  bool help = false;
  bool json = false;
  HVD_TRY(const auto operands,
          take_flags("hvdrun why", args, {{"--help", &help}, {"--json", &json}}));
  if (help) return print_text(kWhyHelp);
  if (operands.size() > 1) return fail("hvdrun why takes one job", kExitUsage);
  LookCommand command{.word = "why"};
  if (!operands.empty()) command.job = operands.front();
  if (json) command.options.emplace_back("--json");
  return look_into_job(command, environment, [json](ControlClient client) -> Result<int> {
    HVD_TRY(const ControlJson verdict, client.ask("why", ControlJson::object(), kLimit));
    if (!verdict.is_object()) return fail("hvdrun why: the job's answer is no verdict");
    return print_text(json ? json_line(verdict) + "\n" : text_of(verdict));
  });
}

}  // namespace hvdrun
