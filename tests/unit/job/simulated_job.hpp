// A simulated world for the supervisor: hosts, agents, ranks and time are values. A seed decides
// which faults each of them has. What ranks really did is kept, whatever was reported.
//
// Only the agents are simulated: they send the frames that real agents would send. Frames are
// packed and parsed as on a real link. One thread; a fault of the world itself throws.
#pragma once

#include "base/event_loop.hpp"
#include "job/job.hpp"
#include "protocol/messages.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun::simulated {

using Clock = TimeSource::Clock;
using Millis = std::chrono::milliseconds;

// How a rank ends that is not stopped.
enum class Fate { exits_0, exits_3, is_killed, aborts, leaves_without_finalize };

// What a rank does when it is asked to end.
enum class OnStop { dies, exits_0, ignores };

// The probability of each event. Per rank and attempt:
struct Chances {
  double rank_fails = 0.15;
  double rank_lasts = 0.05;  // far longer than the others
  // Per agent and attempt:
  double agent_is_killed = 0.04;
  double link_is_cut = 0.04;  // no frame passes any more, and no end of file
  double agent_pauses = 0.08;
  double agent_gives_up = 0.03;  // it hears nothing of the launcher and ends its ranks
  double agent_never_greets = 0.02;
  double program_is_missing = 0.02;  // on that host
  // Per frame to the launcher:
  double frame_is_doubled = 0.003;
  // Per history:
  double launcher_pauses = 0.15;  // for up to a minute
  double user_interrupts = 0.12;
  double user_asks = 0.05;  // by SIGQUIT, for the states of the ranks
  double is_elastic = 0.25;
  // Per rank of an elastic job and step of its life:
  double member_dies = 0.01;
  double member_disconnects = 0.01;
  double member_is_stopped = 0.01;   // in the wire-up, and never continued
  double collective_fails = 0.05;    // though none has died
  bool only_hosts_are_lost = false;  // the other chances are 0

  static Chances none() {
    Chances chances{0, 0.05, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.05};
    chances.member_dies = chances.member_disconnects = chances.member_is_stopped = 0;
    return chances;
  }
};

// What the program of an elastic job does.
struct ElasticJob {
  bool uses_hvd = true;
  bool reforms = true;  // false: a rank exits when a collective has failed
  std::size_t least = 1;
  Millis reset_timeout{0};
  bool grows = false;  // new ranks are started
};

// What the launcher waits for since it has asked a member.
struct Question {
  std::optional<Clock::time_point> asked;
  std::optional<Clock::time_point> answered;
  bool is_open() const { return asked && !answered; }
  void ask(Clock::time_point now) {
    asked = now;
    answered.reset();
  }
};

// A rank of an elastic job as a member.
struct Member {
  enum class State : std::uint8_t { outside, coming, wiring, inside, left };
  State state = State::outside;
  bool swallows = false;  // it does not come after `over`
  bool stopped = false;   // by a signal
  bool connected = true;
  bool disconnection_reported = false;
  bool has_left = false;  // it may have come again since
  bool fails = false;     // it has failed, and is about to end
  std::uint32_t generation = 0;
  std::uint64_t commits = 0;
  std::map<std::uint32_t, std::uint64_t> commits_in;  // by generation
  int moves = 0;                                      // a step of an earlier one is not done
  Clock::time_point last_read{};                      // frames do not overtake each other
  Question to_come;                                   // `over`
  Question for_part;                                  // `go`, `parts`
};

// What a rank really did in one attempt, whatever was reported.
struct Rank {
  Fate fate = Fate::exits_0;
  OnStop on_stop = OnStop::dies;
  bool had_to_stop = false;
  bool is_later = false;  // it was started, or is to be, while others ran
  bool started = false;
  bool alive = false;
  bool signalled = false;  // by a part of hvdrun, before its end
  bool aborted = false;
  bool lost_a_peer = false;   // it failed because another rank's host was lost
  bool reaped = false;        // the agent has reported its end
  bool end_is_known = false;  // to the launcher
  int wait_status = 0;
  Member member;

  bool failed_by_itself() const {
    return aborted || member.fails ||
           (!lost_a_peer && started && !alive && !signalled &&
            (wait_status != 0 || fate == Fate::leaves_without_finalize));
  }
  bool succeeded() const {
    return started && !alive && !signalled && !lost_a_peer && wait_status == 0 &&
           !failed_by_itself();
  }
};

// A generation of an elastic job, as `go` has announced it.
struct Generation {
  std::uint32_t number = 0;
  std::vector<std::uint32_t> members;  // by rank
  std::uint64_t most_commits = 0;      // of a member, then
};

struct AttemptTruth {
  std::deque<Rank> ranks;  // by number; their addresses stay
  std::vector<Generation> generations;
  bool members_accused = false;  // of not being reachable
  bool one_wiring_failed = false;
  bool members_ended = false;              // by the launcher
  bool one_ended_without_leaving = false;  // hvd_shutdown, with exit code 0
  bool one_came_after_leaving = false;     // it called hvd_init again
  std::set<std::string> hosts;
  std::set<std::string> lost_hosts;  // whose agents were killed, or whose links were cut
  bool one_was_lost_before_launch = false;
  std::set<std::string> unreachable;  // those of `hosts` that the launcher cannot reach
  bool disturbed = false;             // an agent, a link or a frame had a fault

  // Returns whether a rank that was started later was in no generation.
  bool never_joined(std::size_t number) const {
    return ranks[number].is_later &&
           std::ranges::none_of(generations, [number](const Generation& one) {
             return std::ranges::count(one.members, number) > 0;
           });
  }

  // Returns whether the rank's end decides whether the job has succeeded.
  bool decides(std::size_t number) const {
    if (never_joined(number)) return false;
    if (generations.empty()) return true;
    // One that has left and then fails is lost, if the others have continued. So is one that its
    // agent ends when it gives up.
    const Rank& its = ranks[number];
    const bool is_lost =
        its.failed_by_itself() || (disturbed && (its.signalled || !its.end_is_known));
    if (its.member.state == Member::State::left && !is_lost) return true;
    // One that has left and then came again is not to be stopped before it has ended.
    if (its.member.has_left && its.signalled && !members_ended && !is_lost) return true;
    const auto& last = generations.back().members;
    return std::find(last.begin(), last.end(), number) != last.end();
  }
  bool ranks_succeeded() const {
    for (std::size_t number = 0; number < ranks.size(); ++number)
      if (decides(number) && !ranks[number].succeeded()) return false;
    return true;
  }
  bool had_to_stop() const {
    // What a lost agent has not reported is not known.
    for (std::size_t number = 0; number < ranks.size(); ++number)
      if ((decides(number) || ranks[number].succeeded()) && ranks[number].had_to_stop &&
          (!disturbed || ranks[number].end_is_known))
        return true;
    return false;
  }
};

class SimulatedAgents;
struct SimulatedAgent;

class World final : public TimeSource {
 public:
  World(std::uint64_t seed, const Chances& its_chances, std::size_t ranks, bool verbose)
      : chances(its_chances), random_(seed), ranks_(ranks), verbose_(verbose) {
    if (chance(chances.launcher_pauses))
      in(between(1, 6000), [this] {
        const auto time = between(500, 60000);
        say("the launcher pauses for {} ms", time.count());
        frozen_until_ = now_ + time;
      });
    static constexpr std::array kSignals{SIGINT, SIGTERM, SIGHUP};
    if (chance(chances.user_interrupts)) {
      const int signal = kSignals[static_cast<std::size_t>(between(0, 2).count())];
      const auto first = between(1, 8000);
      in(first, [this, signal] { send_signal(signal); });
      if (chance(0.3)) in(first + between(1, 2000), [this, signal] { send_signal(signal); });
    }
    if (chance(chances.user_asks)) in(between(1, 6000), [this] { send_signal(SIGQUIT); });
  }

  Clock::time_point now() const override { return now_; }

  bool run_due() override {
    if (++turns_ > kMostTurns) throw std::runtime_error("the history does not end");
    if (frozen_until_) return pass(std::nullopt);
    if (!withheld_.empty()) {
      const auto event = std::move(withheld_.front());
      withheld_.pop_front();
      event();
      return true;
    }
    if (events_.empty() || events_.begin()->first > now_) return false;
    run_first();
    return true;
  }

  bool pass(std::optional<Clock::time_point> limit) override {
    if (frozen_until_) {
      if (!events_.empty() && events_.begin()->first <= *frozen_until_) {
        now_ = std::max(now_, events_.begin()->first);
        run_first();
      } else {
        now_ = *frozen_until_;
        frozen_until_.reset();
        say("the launcher continues");
      }
      return true;
    }
    if (events_.empty() && !limit) return false;
    auto next = limit.value_or(Clock::time_point::max());
    if (!events_.empty()) next = std::min(next, events_.begin()->first);
    now_ = std::max(now_, next);
    return true;
  }

  MakeAgents make_agents();
  AttemptTruth& begin_attempt() {
    auto& made = attempts.emplace_back();
    for (std::size_t rank = 0; rank < ranks_; ++rank) add_rank(made);
    return made;
  }
  Rank& add_rank(AttemptTruth& attempt) {
    Rank rank;
    if (chance(chances.rank_fails)) rank.fate = static_cast<Fate>(between(1, 4).count());
    rank.on_stop = static_cast<OnStop>(between(0, 2).count());
    rank.had_to_stop = chance(0.1);
    return attempt.ranks.emplace_back(rank);
  }

  bool chance(double probability) {
    return std::uniform_real_distribution<>(0, 1)(random_) < probability;
  }
  Millis between(int low, int high) {
    return Millis(std::uniform_int_distribution<>(low, high)(random_));
  }
  void at(Clock::time_point time, std::function<void()> event) {
    events_.emplace(std::max(time, now_), std::move(event));
  }
  void in(Millis delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }
  void at_the_launcher(Clock::time_point time, std::function<void()> event) {
    at(time, [this, event = std::move(event)]() mutable {
      if (frozen_until_ || !withheld_.empty())
        withheld_.push_back(std::move(event));
      else
        event();
    });
  }

  template <class... Arguments>
  void say(fmt::format_string<Arguments...> text, Arguments&&... arguments) const {
    if (!verbose_) return;
    const auto time = std::chrono::duration_cast<Millis>(now_.time_since_epoch()).count();
    fmt::print("{:7} ms  {}\n", time, fmt::format(text, std::forward<Arguments>(arguments)...));
  }

  const Chances chances;
  std::vector<AttemptTruth> attempts;
  std::vector<std::shared_ptr<SimulatedAgent>> agents;  // of the running attempt
  bool interrupted = false;
  std::optional<ElasticJob> elastic;  // nullopt: the job ends when a rank is lost

 private:
  void run_first() {
    const auto event = std::move(events_.begin()->second);
    events_.erase(events_.begin());
    event();
  }

  void send_signal(int signal) {
    at_the_launcher(now_, [this, signal] {
      say("{} comes", signal_name(signal));
      if (signal != SIGQUIT) interrupted = true;
      ::raise(signal);
    });
  }

  static constexpr std::size_t kMostTurns = 2'000'000;

  std::mt19937_64 random_;
  std::size_t turns_ = 0;
  const std::size_t ranks_;
  const bool verbose_;
  Clock::time_point now_{};
  std::multimap<Clock::time_point, std::function<void()>> events_;
  std::deque<std::function<void()>> withheld_;     // from a launcher that is paused
  std::optional<Clock::time_point> frozen_until_;  // until then the launcher is paused
};

// One agent with its guard and ranks. Its events share it: they may come after its attempt.
struct SimulatedAgent : std::enable_shared_from_this<SimulatedAgent> {
  SimulatedAgent(World& its_world, SimulatedAgents& its_owner, AgentState& its_state)
      : world(its_world), owner(&its_owner), state(&its_state) {}

  void begin();
  void receive(FrameType type, std::string payload);
  void handle(FrameType type, const std::string& payload);
  void launch(LaunchMessage message);
  void let_live(int number);
  void end_rank(int number, int wait_status);
  void stop(bool by_kill, Millis grace);
  void consider_leaving();
  void leave();
  void die();
  void note_loss();
  void cut_link();

  // Of elastic jobs (simulated_members.cpp):
  void begin_member(int number);
  void start_more(const std::string& payload);
  void act(int number, Millis delay, const std::function<void(SimulatedAgent&, Rank&)>& step);
  void send_of_member(int number, FrameType type, std::uint32_t generation,
                      const std::string& payload);
  bool dies_here(int number);
  void come(int number, ComeReason why);
  void take_part(int number, std::uint32_t exchange);
  void fail_wiring(int number);
  void stop_member(int number);
  void go_inside(int number);
  void finish_member(int number);
  void finish_member_later(int number, Millis delay);
  void lose_connection(int number);
  void react_to_over(int number);
  void pass_to_members(FrameType type, const std::string& payload);
  void member_reads(int number, FrameType type, std::uint32_t generation,
                    const std::string& payload);
  void end_member(int number);
  void fail_for_a_peer(int number, Millis delay);
  void fail_slowly(int number);
  // What the launcher does, when it does it.
  void note_sent(FrameType type, const std::string& payload);
  void note_more(const std::string& payload);
  void check_end_member(int number);

  void send(FrameType type, const std::string& payload);
  void close_link(std::string failure, Millis delay);

  Rank& rank(int number) {
    return world.attempts[attempt_index].ranks[static_cast<std::size_t>(number)];
  }
  void disturb() { world.attempts[attempt_index].disturbed = true; }
  void now_unreachable() { world.attempts[attempt_index].unreachable.insert(host); }
  // Runs the event at once, or when the agent is no longer paused.
  void when_it_runs(Millis delay, std::function<void()> event) {
    world.in(delay, [self = shared_from_this(), event = std::move(event)] {
      if (!self->alive) return;
      if (self->paused_until <= self->world.now()) return event();
      self->world.at(self->paused_until, [self, event] {
        if (self->alive) event();
      });
    });
  }

  World& world;
  SimulatedAgents* owner;  // null after its attempt
  AgentState* state;       // must not be used after its attempt
  std::size_t attempt_index = 0;
  std::string host;
  bool alive = true;
  bool cut = false;
  std::optional<Clock::time_point> cut_at;
  bool closing = false;  // the launcher is about to see the link's end
  bool stopping = false;
  bool released = false;
  bool left = false;
  std::size_t hosts = 1;
  bool grows = false;
  std::vector<int> numbers;  // of its ranks that have started
  bool launched = false;
  Clock::time_point paused_until{};
  Clock::time_point last_up{};  // frames do not overtake each other
  Clock::time_point last_down{};
};

}  // namespace hvdrun::simulated
