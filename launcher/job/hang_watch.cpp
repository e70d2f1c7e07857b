#include "job/hang_watch.hpp"

#include "base/process_state.hpp"
#include "base/severity.hpp"
#include "common/text.hpp"
#include "hang/verdict.hpp"
#include "hang/verdict_json.hpp"
#include "job/rank_states.hpp"
#include "job/stalls.hpp"
#include "look/look_parse.hpp"
#include "look/nccl_answer.hpp"
#include "report/report_text.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// Between the two looks at a process.
constexpr milliseconds kInterval{300};
// With the way of the answers, and of the question, it is less than 5 s.
constexpr milliseconds kUsualLimit{4500};
// A user who stops the job waits for this, and for the answers' way.
constexpr milliseconds kLimitBeforeStop{1500};
constexpr milliseconds kWay{300};
// A job that is to be stopped may hang if it has printed nothing for this time.
constexpr milliseconds kSilent{5000};

RankFacts facts_of(const RankReport& report) {
  RankFacts facts;
  facts.rank = report.placement.rank;
  facts.host = report.host;
  if (report.exited) facts.ended = describe_end(report);
  return facts;
}

// Only of this machine it is known whether the agent is stopped.
std::string why_silent(const AgentState& agent) {
  if (agent.host.is_this_machine)
    return process_state(agent.pid) == 'T'
               ? fmt::format("its hvdrun-agent is stopped; kill -CONT {} continues it", agent.pid)
               : "its hvdrun-agent has not answered in time: this host is busy";
  if (agent.silence && agent.silence->is_short())
    return "its hvdrun-agent gives signs of life, and has not answered in time: the host is busy";
  return fmt::format(
      "its hvdrun-agent (pid {} there) does not answer: it is stopped, or the host hangs",
      agent.pid);
}

// Returns "ranks 64-79 (sleeping) and 80 (running) were not looked at"; "" if there is none.
std::string not_looked_at(const std::vector<RankState>& ranks, const std::set<int>& looked_at) {
  std::map<std::string_view, std::vector<int>> by_state;
  for (const auto& rank : ranks)
    if (rank.state != "ended" && !looked_at.contains(rank.rank))
      by_state[state_words(rank.state)].push_back(rank.rank);
  if (by_state.empty()) return {};
  std::vector<std::string> parts;
  for (const auto& [state, numbers] : by_state)
    parts.push_back(fmt::format("{} ({})", describe_ranks(numbers), state));
  return fmt::format("{} {} not looked at", fmt::join(parts, ", "),
                     parts.size() == 1 && by_state.begin()->second.size() == 1 ? "was" : "were");
}

}  // namespace

HangWatch::HangWatch(AttemptParts& attempt, Members members)
    : attempt_(attempt),
      members_(std::move(members)),
      last_output_(attempt.job.loop.now()),
      question_(attempt.job.loop) {}

HangWatch::~HangWatch() {
  HangReport ended;
  ended.text = "the job has ended meanwhile";
  for (const auto& asker : askers_)
    if (asker.is_outside) asker.done(ended);
}

void HangWatch::ask(Done done) {
  look(kUsualLimit, {std::move(done), true});
}

void HangWatch::look(milliseconds limit, Asker asker) {
  askers_.push_back(std::move(asker));
  if (askers_.size() == 1)
    question_.ask(*attempt_.questions, {0, Wanted::looks, kInterval, limit}, limit + kWay,
                  [this](const Answers& answers) { finish(answers); });
  else if (limit < kUsualLimit)
    question_.limit(limit);
}

void HangWatch::finish(const Answers& answers) {
  const auto report = judge(answers);
  if (report.kind == HangKind::hangs || report.kind == HangKind::slow) found_ = report;
  has_printed_ = false;
  for (const auto& asker : std::exchange(askers_, {})) asker.done(report);
}

std::string HangWatch::ranks_on(std::size_t host) const {
  std::vector<int> numbers;
  for (const auto& rank : attempt_.table.ranks())
    if (!rank.exited && attempt_.table.host_index(rank.placement.rank) == host)
      numbers.push_back(rank.placement.rank);
  return numbers.empty() ? "none" : fold_ranks(numbers);
}

HangReport HangWatch::judge(const Answers& answers) {
  HangFacts facts;
  const auto& ranks = attempt_.table.ranks();
  std::vector<RankState> states;
  std::vector<HostProcesses> hosts;
  std::vector<NcclCommunicator> nccl;
  for (const auto& rank : ranks) facts.ranks.push_back(facts_of(rank));
  for (const std::size_t host : answers.asked) {
    const auto& agent = attempt_.agents->on_host(host);
    const auto& name = agent.host.name;
    const auto at = answers.by_host.find(host);
    if (answers.lost.contains(host))
      facts.problems.push_back(name + ": its hvdrun-agent was lost during the look");
    else if (at == answers.by_host.end())
      facts.problems.push_back(fmt::format("{}: {}; its ranks are missing here: {}", name,
                                           why_silent(agent), ranks_on(host)));
    if (at == answers.by_host.end()) continue;
    const auto& answer = at->second;
    if (answer.more && !answers.lost.contains(host))
      facts.problems.push_back(name + ": the looks did not come in time: it is busy");
    if (!answer.problem.empty()) facts.problems.push_back(name + ": " + answer.problem);
    auto& processes = hosts.emplace_back(agent.facts ? agent.facts->address : std::string());
    auto& pids = processes.ranks;
    for (const auto& state : answer.ranks)
      if (attempt_.table.has(state.rank)) {
        states.push_back(state);
        pids[state.pid] = state.rank;
      }
    std::set<int> looked_at;
    for (const auto& text : answer.looks) {
      if (auto counted = parse_nccl(text)) nccl = std::move(*counted);
      auto look = parse_look(text);
      if (!look || !pids.contains(look->asked)) continue;
      const int rank = pids[look->asked];
      pids[look->pid] = rank;
      looked_at.insert(rank);
      facts.ranks[static_cast<std::size_t>(rank)].looks.push_back(std::move(*look));
    }
    if (auto text = not_looked_at(answer.ranks, looked_at); !text.empty())
      facts.problems.push_back(fmt::format("{}: {}", name, text));
  }
  facts.nccl = find_nccl_waits(nccl, hosts);
  waits_.take(facts.ranks,
              std::chrono::duration<double>(attempt_.job.loop.now().time_since_epoch()).count());
  states = members_(std::move(states));
  std::ranges::sort(states, {}, &RankState::rank);
  for (const auto& state : states) {
    auto& rank = facts.ranks[static_cast<std::size_t>(state.rank)];
    rank.collective = state.collective;
    rank.calls = state.calls;
    rank.background = state.background;
    rank.waited = std::max(state.collective_seconds, state.background_seconds);
  }
  facts.waits = find_waits(states, ranks);
  leave_out_others(facts.ranks);
  return judge_hang(facts);
}

// A process that was lost, or was started later and is in no generation, is waited for by none.
void HangWatch::leave_out_others(std::vector<RankFacts>& ranks) const {
  std::vector<RankState> all(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) all[i].rank = ranks[i].rank;
  const auto members = members_(std::move(all));
  const auto size = attempt_.placement().size;
  std::erase_if(ranks, [&](const RankFacts& rank) {
    const bool may_be_none = rank.rank >= size || !rank.ended.empty();
    return may_be_none && std::ranges::count(members, rank.rank, &RankState::rank) == 0;
  });
}

void HangWatch::print(const HangReport& report, bool is_asked) {
  const bool is_found = report.kind == HangKind::hangs || report.kind == HangKind::slow;
  if ((!is_found && !is_asked) || std::exchange(has_printed_, true)) return;
  auto lines = verdict_lines(report);
  if (is_found) lines.front() = warning_text(lines.front());
  for (const auto& line : lines) attempt_.note(line);
}

void HangWatch::on_stall() {
  if (std::exchange(stalled_, true)) return;
  look(kUsualLimit, {[this](const HangReport& report) { print(report, false); }});
}

void HangWatch::on_question() {
  if (!attempt_.agents->all(AgentPhase::running)) return;
  look(kUsualLimit, {[this](const HangReport& report) { print(report, true); }});
}

bool HangWatch::seems_to_hang(const StopCause& cause) const {
  if (!attempt_.agents->all(AgentPhase::running) || attempt_.table.all_ended()) return false;
  if (cause.kind == EndKind::exit_timeout || cause.kind == EndKind::quiet_timeout) return true;
  if (cause.kind != EndKind::interrupted) return false;
  return stalled_ || attempt_.job.loop.now() - last_output_ >= kSilent;
}

void HangWatch::before_stop(const StopCause& cause, std::function<void()> stop) {
  if (!seems_to_hang(cause)) return stop();
  look(kLimitBeforeStop, {[this, stop = std::move(stop)](const HangReport& report) {
         print(report, false);
         stop();
       }});
}

}  // namespace hvdrun
