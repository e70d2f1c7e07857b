#include "commands/logs.hpp"

#include "commands/log_lines.hpp"
#include "commands/look_into_job.hpp"
#include "commands/subcommand.hpp"
#include "common/text.hpp"
#include "control/job_now_json.hpp"
#include "model/rank_set.hpp"
#include "output/own_line.hpp"

#include <charconv>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::string_view kLogsHelp = R"(usage: hvdrun logs [-f] [-n LINES] [--rank RANKS] [JOB]

Shows the last lines that the ranks of a running job have printed, also if it was started by
nohup or from a notebook. hvdrun keeps the last 256 KiB of each rank, and less in a job with more than
4 ranks (1 MiB in all, at least 4 KiB of each). With --output-filename, all lines are in files.

  JOB           hvdrun's process on this machine, or the number of the SLURM job, which may run on
                other hosts; without it the only job that runs
  -f, --follow  show further lines as they come, until the job ends or Ctrl-C
  -n, --lines LINES  so many lines of each rank (20)
  --rank RANKS  only these ranks: 3, 0,4-7 or last
  --help        this text

See also: hvdrun jobs, hvdrun top
)";

constexpr std::chrono::milliseconds kLogsTimeout{5000};
constexpr std::chrono::milliseconds kLogsInterval{250};

struct LogsOptions {
  bool follow = false;
  std::size_t lines = 20;
  std::optional<RankSet> ranks;
};

Result<std::size_t> parse_lines(const std::string& text) {
  std::size_t lines = 0;
  const auto* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, lines);
  if (error != std::errc() || after != end)
    return fail("-n (--lines) takes a number of lines, not " + quote_if_needed(text), kExitUsage);
  return lines;
}

class Logs {
 public:
  Logs(ControlClient client, LogsOptions options)
      : client_(std::move(client)), options_(std::move(options)) {}

  Result<int> run() {
    HVD_TRY(const auto about_json, client_.ask("about", ControlJson::object(), kLogsTimeout));
    const auto about = job_about_from(about_json);
    if (options_.ranks && options_.ranks->needs_size() && about.ranks_in_all == 0)
      return fail("the last rank is not known yet: the job has no ranks so far", kExitUsage);
    if (options_.ranks) HVD_CHECK(options_.ranks->settle(about.ranks_in_all));
    if (options_.ranks && about.ranks_in_all > 0 && options_.ranks->highest() >= about.ranks_in_all)
      return fail(fmt::format("there is no rank {}: the job has {}", options_.ranks->highest(),
                              plural(about.ranks_in_all, "rank")),
                  kExitUsage);
    HVD_TRY(auto lines, take());
    auto last = lines_.unfinished();
    if (!options_.follow)
      for (auto& line : last)
        if (wants(line.rank)) lines.push_back(std::move(line));
    int code = print(last_of_each(std::move(lines), options_.lines));
    if (!about.output_folder.empty())
      print_own_line("all lines are in " + escape(about.output_folder));
    while (options_.follow && code == kExitOk) {
      // The last lines come by themselves. In SLURM this process has little time then.
      pollfd readable{client_.descriptor(), POLLIN, 0};
      ::poll(&readable, 1, static_cast<int>(kLogsInterval.count()));
      auto more = take();
      if (!more && client_.has_ended()) {
        code = print(lines_.unfinished());
        print_own_line("the job has ended");
        break;
      }
      HVD_TRY(lines, std::move(more));
      code = print(lines);
    }
    return code;
  }

 private:
  bool wants(int rank) const { return !options_.ranks || options_.ranks->contains(rank); }

  // Returns the lines that have ended since the last call. Error: the job has ended, and there are
  // no more.
  Result<std::vector<LogLine>> take() {
    std::vector<LogLine> lines;
    ControlJson arguments{{"after", last_}};
    if (options_.follow) arguments["follower"] = ::getpid();
    while (true) {
      arguments["after"] = last_;
      auto asked = client_.ask("logs", arguments, kLogsTimeout);
      if (!asked && client_.has_ended() && !lines.empty()) return lines;
      HVD_TRY(const auto answer, std::move(asked));
      const auto chunks = log_chunks_from(answer);
      if (const auto ranks = answer.find("ranks"); ranks != answer.end() && ranks->is_number())
        ranks_ = ranks->get<int>();
      for (const auto& chunk : chunks) {
        last_ = chunk.number;
        if (!wants(chunk.rank)) continue;
        for (auto& line : lines_.add(chunk)) lines.push_back(std::move(line));
      }
      if (chunks.empty()) return lines;
    }
  }

  int print(const std::vector<LogLine>& lines) const {
    std::string text;
    for (const auto& line : lines)
      if (wants(line.rank)) text += labelled(line, ranks_) + "\n";
    return print_text(text);
  }

  ControlClient client_;
  LogsOptions options_;
  LogLines lines_;
  std::uint64_t last_ = 0;
  int ranks_ = 0;
};

}  // namespace

Result<int> run_logs(const std::vector<std::string>& args, const Environment& environment) {
  bool help = false;
  LogsOptions options;
  std::optional<std::string> lines;
  std::optional<std::string> ranks;
  HVD_TRY(const auto operands,
          take_flags("hvdrun logs", args,
                     {{"--help", &help}, {"--follow", &options.follow}, {"-f", &options.follow}},
                     {{"--lines", &lines}, {"-n", &lines}, {"--rank", &ranks}}));
  if (help) return print_text(kLogsHelp);
  if (operands.size() == 2 && !ranks && RankSet::parse(operands.back()))
    return fail(fmt::format("hvdrun logs takes one job; for ranks of it: hvdrun logs --rank {} {}",
                            operands.back(), quote_if_needed(operands.front())),
                kExitUsage);
  if (operands.size() > 1) return fail("hvdrun logs takes one job", kExitUsage);
  LookCommand command{.word = "logs"};
  if (!operands.empty()) command.job = operands.front();
  if (options.follow) command.options.emplace_back("--follow");
  if (lines) {
    HVD_TRY(options.lines, parse_lines(*lines));
    command.options.insert(command.options.end(), {"--lines", *lines});
  }
  if (ranks) {
    HVD_TRY(options.ranks, RankSet::parse(*ranks));
    command.options.insert(command.options.end(), {"--rank", *ranks});
  }
  return look_into_job(command, environment, [&](ControlClient client) {
    return Logs(std::move(client), options).run();
  });
}

}  // namespace hvdrun
