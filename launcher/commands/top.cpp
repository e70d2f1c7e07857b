#include "commands/top.hpp"

#include "commands/look_into_job.hpp"
#include "commands/subcommand.hpp"
#include "commands/top_rates.hpp"
#include "commands/top_screen.hpp"
#include "commands/top_session.hpp"
#include "common/text.hpp"
#include "control/job_now_json.hpp"
#include "output/color.hpp"

#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::string_view kTopHelp = R"(usage: hvdrun top [--once] [--json] [--sort KEY] [JOB]

Shows what the ranks of a running job do, each second: steps, samples per second, the shares of
their time in collectives and of that waiting for others, processors, memory and GPUs. Ranks that hold
up the others are marked "<<".

  JOB         hvdrun's process on this machine, or the number of the SLURM job, which may run on other
              hosts; without it the only job that runs
  --once      print it once, after a second, and end; also where stdout is no terminal
  --json      the same as JSON, for other programs
  --sort KEY  rank, waiting, step, samples, cpu or memory; those that are slow come first
  --help      this text

Keys: q quit, s sort by another column, f fold the ranks of a host, up and down choose a rank, l its
last lines, w why it waits.

See also: hvdrun jobs, hvdrun logs
)";

constexpr std::chrono::milliseconds kOnceTimeout{5000};
constexpr std::chrono::milliseconds kOnceInterval{1000};

ControlJson number_or_null(const std::optional<double>& value) {
  return value ? ControlJson(*value) : ControlJson();
}

std::string as_json(const TopRates& rates) {
  auto json = to_json(rates.now());
  for (std::size_t i = 0; i < rates.ranks().size(); ++i) {
    const auto& rank = rates.ranks()[i];
    auto& entry = json["ranks"][i];
    entry["samples_per_second_now"] = number_or_null(rank.samples_per_second);
    entry["collective_share"] = number_or_null(rank.collective_share);
    entry["waiting_share"] = number_or_null(rank.waiting_share);
    entry["cpu_percent"] = number_or_null(rank.cpu_percent);
    entry["holds_up"] = rank.holds_up;
  }
  json["hold_ups"] = rates.hold_ups();
  return json.dump(2, ' ', false, ControlJson::error_handler_t::replace) + "\n";
}

// Looks twice: rates are those of the time between.
Result<int> print_once(ControlClient& client, const TopView& view, bool json) {
  TopRates rates;
  for (int look = 0; look < 2; ++look) {
    if (look > 0) std::this_thread::sleep_for(kOnceInterval);
    auto answer = client.ask("state", ControlJson::object(), kOnceTimeout);
    if (!answer && client.has_ended() && look > 0) break;
    HVD_TRY(const auto state, std::move(answer));
    rates.add(job_now_from(state));
  }
  if (json) return print_text(as_json(rates));
  std::string text;
  for (const auto& line : top_summary(rates)) text += line.text + "\n";
  for (const auto& line : top_table(rates, view)) text += line.text + "\n";
  return print_text(text);
}

}  // namespace

Result<int> run_top(const std::vector<std::string>& args, const Environment& environment) {
  bool help = false;
  bool once = false;
  bool json = false;
  std::optional<std::string> sort;
  HVD_TRY(const auto operands,
          take_flags("hvdrun top", args, {{"--help", &help}, {"--once", &once}, {"--json", &json}},
                     {{"--sort", &sort}}));
  if (help) return print_text(kTopHelp);
  if (operands.size() > 1) return fail("hvdrun top takes one job", kExitUsage);
  TopView view;
  if (sort) {
    const auto known = sort_of_name(*sort);
    if (!known)
      return fail(
          "--sort takes rank, waiting, step, samples, cpu or memory, not " + quote_if_needed(*sort),
          kExitUsage);
    view.sort = *known;
  }
  const bool can_draw = ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1 &&
                        TerminalEnvironment::of_process().has_escapes();
  LookCommand command{.word = "top"};
  if (!operands.empty()) command.job = operands.front();
  command.draws = !once && !json && can_draw;
  if (!command.draws) command.options.emplace_back("--once");
  if (json) command.options.emplace_back("--json");
  if (sort) command.options.insert(command.options.end(), {"--sort", *sort});
  return look_into_job(command, environment, [&](ControlClient client) -> Result<int> {
    if (!command.draws) return print_once(client, view, json);
    return watch_job(std::move(client), view);
  });
}

}  // namespace hvdrun
