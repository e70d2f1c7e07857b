#include "simulated_job.hpp"

#include "base/version.hpp"

#include <chrono>

namespace hvdrun::simulated {

class SimulatedLink final : public FrameSender {
 public:
  explicit SimulatedLink(std::shared_ptr<SimulatedAgent> agent) : agent_(std::move(agent)) {}
  void send(FrameType type, std::uint32_t, std::string_view payload) override {
    agent_->receive(type, std::string(payload));
  }
  void send_shared(FrameType type, std::uint32_t, const SharedPayload& payload) override {
    agent_->receive(type, *payload);
  }

 private:
  std::shared_ptr<SimulatedAgent> agent_;
};

class SimulatedAgents final : public Agents {
 public:
  SimulatedAgents(World& world, Events events) : Agents(std::move(events)), world_(world) {}
  ~SimulatedAgents() override {
    for (const auto& agent : world_.agents) agent->owner = nullptr;
  }

  Result<void> start(Start start) override {
    world_.begin_attempt();
    world_.agents.clear();
    for (const auto& host : start.hosts) add(add_agent(host));
    for (const auto& agent : world_.agents) agent->begin();
    return {};
  }
  bool start_again(AgentState& lost) override {
    if (world_.chance(0.2)) return false;
    world_.say("{}: another agent is started", lost.host.name);
    add(add_successor(lost)).begin();
    return true;
  }
  std::string stage(const AgentState& agent) const override {
    return agent.life.gone() || agent.life.has(AgentPhase::running) ? "" : "it starts";
  }
  void give_up(AgentState& state, std::string failure) override {
    loss_of(state).why = std::move(failure);
    world_.agents[state.number]->die();
  }
  std::vector<std::string> kill() override {
    std::vector<std::string> killed;
    for (const auto& agent : world_.agents) {
      if (agent->state->life.gone()) continue;
      killed.push_back(agent->host);
      agent->disturb();
      agent->die();
    }
    return killed;
  }
  std::string last_note() const override { return {}; }
  std::vector<std::string> reap(const std::vector<pid_t>&) override {
    for (const auto& agent : world_.agents) {
      auto& state = *agent->state;
      loss_of(state).cleared_away =
          state.life.has(AgentPhase::greeted) && !state.life.done() && !agent->cut;
    }
    return {};
  }

  void deliver(AgentState& state, FrameType type, const std::string& payload) {
    if (state.life.link_closed()) return;
    reach(state);
    events_.on_frame(state, Frame{type, kToLauncher, payload});
  }
  void deliver_end(AgentState& state, const std::string& failure,
                   std::optional<Clock::time_point> host_heard) {
    if (state.life.gone()) return;
    if (!state.life.done()) loss_of(state).host_heard = host_heard;
    explain_loss(state, failure);
    end(state);
  }

 private:
  SimulatedAgent& add(AgentState& state) {
    auto agent = std::make_shared<SimulatedAgent>(world_, *this, state);
    agent->host = state.host.name;
    agent->attempt_index = world_.attempts.size() - 1;
    state.link = std::make_unique<SimulatedLink>(agent);
    world_.agents.push_back(agent);
    world_.attempts.back().hosts.insert(state.host.name);
    return *agent;
  }
  void cut_starting() override {
    for (const auto& agent : world_.agents)
      if (!agent->state->life.has(AgentPhase::greeted)) agent->die();
  }

  World& world_;
};

MakeAgents World::make_agents() {
  return [this](Agents::Events events) {
    return std::make_unique<SimulatedAgents>(*this, std::move(events));
  };
}

void SimulatedAgent::begin() {
  const auto& chances = world.chances;
  const auto schedule_fault = [this](double chance, const char* what, auto event) {
    if (!world.chance(chance)) return;
    world.in(world.between(1, 6000), [self = shared_from_this(), what, event] {
      if (!self->alive || self->left) return;
      self->world.say("{}: {}", self->host, what);
      self->disturb();
      event(*self);
    });
  };
  schedule_fault(chances.agent_is_killed, "the agent is killed", [](auto& self) {
    if (self.owner != nullptr && !self.state->life.has(AgentPhase::greeted)) self.now_unreachable();
    self.die();
  });
  schedule_fault(chances.link_is_cut, "the link is cut", [](auto& self) { self.cut_link(); });
  schedule_fault(chances.agent_gives_up, "the agent gives up", [](auto& self) {
    // Its message may be lost or wrong: the ends of the ranks decide.
    if (self.world.chance(0.5))
      self.send(FrameType::failed, pack(FailedMessage{"the agent heard nothing", kExitLauncher}));
    if (self.launched)
      self.stop(false, Millis(1000));
    else
      self.leave();
  });
  if (world.chance(chances.agent_pauses))
    world.in(world.between(1, 6000), [self = shared_from_this()] {
      self->paused_until = self->world.now() + self->world.between(500, 40000);
      self->world.say("{}: the agent pauses", self->host);
    });
  if (world.chance(chances.agent_never_greets)) {
    world.say("{}: will not greet", host);
    now_unreachable();
    return disturb();
  }
  when_it_runs(world.between(1, 300), [this] {
    HelloMessage hello;
    hello.version = kVersion;
    hello.host = host;
    hello.pid = 100;
    hello.ports.resize(
        static_cast<std::size_t>(world.between(0, 4).count()));  // sometimes the right number
    send(FrameType::hello, pack(hello));
  });
}

void SimulatedAgent::send(FrameType type, const std::string& payload) {
  if (!alive || cut || left) return;
  last_up = std::max(last_up, world.now() + world.between(0, 10));
  // A member whose frame is doubled could not know what the launcher makes of it.
  const bool is_of_member = type >= FrameType::come && type <= FrameType::disconnected;
  const int times = !is_of_member && world.chance(world.chances.frame_is_doubled) ? 2 : 1;
  if (times == 2) disturb();
  for (int i = 0; i < times; ++i)
    world.at_the_launcher(last_up, [self = shared_from_this(), type, payload] {
      if (self->owner == nullptr || self->cut) return;
      self->world.say("{}: > frame {}", self->host, static_cast<int>(type));
      if (type == FrameType::exited)
        self->rank(parse<ExitedMessage>(payload).value().rank).end_is_known = true;
      self->owner->deliver(*self->state, type, payload);
    });
}

void SimulatedAgent::close_link(std::string failure, Millis delay) {
  if (std::exchange(closing, true)) return;
  last_up = std::max(last_up, world.now() + delay);
  world.at_the_launcher(last_up, [self = shared_from_this(), failure = std::move(failure)] {
    if (self->owner != nullptr)
      self->owner->deliver_end(*self->state, failure, self->cut ? self->cut_at : std::nullopt);
  });
}

void SimulatedAgent::receive(FrameType type, std::string payload) {
  note_sent(type, payload);
  if (!alive || cut) return;
  last_down = std::max(last_down, world.now() + world.between(0, 5));
  world.at(last_down, [self = shared_from_this(), type, payload = std::move(payload)] {
    if (!self->cut)
      self->when_it_runs(Millis(0), [self, type, payload] { self->handle(type, payload); });
  });
}

void SimulatedAgent::handle(FrameType type, const std::string& payload) {
  if (left) return;
  world.say("{}: < frame {}", host, static_cast<int>(type));
  switch (type) {
    case FrameType::hold_ports: {
      PortsMessage ports;
      ports.ports.resize(static_cast<std::size_t>(parse<HoldPortsMessage>(payload).value().count));
      return send(FrameType::ports, pack(ports));
    }
    case FrameType::launch:
      return launch(parse<LaunchMessage>(payload).value());
    case FrameType::stop:
      return stop(false, parse<StopMessage>(payload).value().grace);
    case FrameType::kill:
      return stop(true, Millis(0));
    case FrameType::release:
      released = true;
      return consider_leaving();
    case FrameType::question: {
      AnswerMessage states;
      states.number = parse<QuestionMessage>(payload).value().number;
      for (const int number : numbers) {
        RankState of_rank;
        of_rank.rank = number;
        of_rank.state = rank(number).alive ? "S" : "ended";
        states.ranks.push_back(of_rank);
      }
      return send(FrameType::answer, pack(states));
    }
    case FrameType::over:
    case FrameType::go:
    case FrameType::parts:
    case FrameType::updated:
    case FrameType::removed:
      return pass_to_members(type, payload);
    case FrameType::start_more:
      return start_more(payload);
    case FrameType::end_member:
      return end_member(static_cast<int>(*parse_number(payload)));
    default:
      return;
  }
}

void SimulatedAgent::launch(LaunchMessage message) {
  hosts = message.pmix_namespace.empty() ? 1 : message.hosts.size();
  launched = true;
  grows = message.grows;
  StartedMessage started;
  const bool fails = world.chance(world.chances.program_is_missing);
  if (!fails && !stopping) {
    for (const auto& each : message.ranks) {
      numbers.push_back(each.rank);
      auto& its = rank(each.rank);
      its.started = its.alive = true;
      if (world.elastic) begin_member(each.rank);
      started.pids.emplace_back(each.rank, 1000 + each.rank);
      let_live(each.rank);
    }
  }
  if (stopping) return consider_leaving();
  send(FrameType::started, pack(started));
  if (!fails) return;
  world.say("{}: no such program", host);
  disturb();
  send(FrameType::failed, pack(FailedMessage{"cannot run ./train", kExitNotFound}));
}

void SimulatedAgent::let_live(int number) {
  const auto time = world.chance(world.chances.rank_lasts) ? world.between(60000, 600000)
                                                           : world.between(1, 5000);
  world.in(time, [self = shared_from_this(), number] {
    Rank& its = self->rank(number);
    if (!its.alive || its.signalled) return;
    if (its.member.stopped) return;
    if (self->world.elastic && self->world.elastic->uses_hvd && its.fate == Fate::exits_0)
      return self->finish_member(number);
    switch (its.fate) {
      case Fate::exits_0:
      case Fate::leaves_without_finalize:
        return self->end_rank(number, 0);
      case Fate::exits_3:
        if (self->world.elastic && !self->world.elastic->reforms) return self->fail_slowly(number);
        return self->end_rank(number, 3 << 8);
      case Fate::is_killed:
        return self->end_rank(number, SIGSEGV);
      case Fate::aborts:
        its.aborted = true;
        self->when_it_runs(Millis(0), [self, number] {
          self->send(FrameType::aborted, pack(AbortedMessage{number, 7, "no"}));
        });
        return self->end_rank(number, 7 << 8);
    }
  });
}

// Ends a rank. The agent notices when it is not paused.
void SimulatedAgent::end_rank(int number, int wait_status) {
  Rank& its = rank(number);
  if (!its.alive) return;
  its.alive = false;
  its.wait_status = wait_status;
  world.say("{}: rank {} ended with {:#x}{}", host, number, wait_status,
            its.signalled ? ", signalled" : "");
  when_it_runs(Millis(0), [this, number] {
    Rank& ended = rank(number);
    ended.reaped = true;
    ExitedMessage message;
    message.rank = number;
    message.wait_status = ended.wait_status;
    message.before_stop = !ended.signalled;
    message.lost_connection = !ended.signalled && ended.fate == Fate::leaves_without_finalize;
    message.counters.had_to_stop = ended.had_to_stop;
    message.counters.commits = ended.member.commits;
    if (world.elastic && (ended.lost_a_peer || ended.member.fails)) {
      message.failure.reported = true;
      message.failure.because_of_peer = ended.lost_a_peer;
      message.failure.before_stop = true;
    }
    message.agent_clock = std::chrono::duration<double>(world.now().time_since_epoch()).count();
    send(FrameType::exited, pack(message));
    consider_leaving();
  });
}

void SimulatedAgent::stop(bool by_kill, Millis grace) {
  if (stopping && !by_kill) return;
  stopping = true;
  for (const int number : numbers) {
    Rank& its = rank(number);
    if (!its.alive) continue;
    const auto end = [this, self = shared_from_this(), number](Millis delay, int status) {
      world.in(delay, [self, number, status] { self->end_rank(number, status); });
    };
    its.signalled = true;
    if (by_kill) {
      end(world.between(0, 5), SIGKILL);
      continue;
    }
    if (its.on_stop == OnStop::dies) end(world.between(0, 50), SIGTERM);
    if (its.on_stop == OnStop::exits_0) end(world.between(0, 50), 0);
    end(grace, SIGKILL);
  }
  consider_leaving();
}

void SimulatedAgent::consider_leaving() {
  const bool any_alive = std::any_of(numbers.begin(), numbers.end(),
                                     [this](int number) { return !rank(number).reaped; });
  if (left || any_alive || !(launched || stopping)) return;
  // Starting failed, and the launcher will send stop; or ranks are to come.
  if (numbers.empty() && !stopping && !released) return;
  if ((hosts > 1 || grows) && !stopping && !released) return;
  leave();
}

void SimulatedAgent::leave() {
  if (left) return;
  send(FrameType::done, pack(DoneMessage{}));
  left = true;
  alive = false;
  close_link("", world.between(0, 10));
}

void SimulatedAgent::note_loss() {
  auto& truth = world.attempts[attempt_index];
  truth.lost_hosts.insert(host);
  truth.one_was_lost_before_launch = truth.one_was_lost_before_launch || !launched;
}

// Kills the agent. Its guard kills the ranks.
void SimulatedAgent::die() {
  if (!alive) return;
  note_loss();
  for (const int number : numbers) {
    Rank& its = rank(number);
    if (!its.alive) continue;
    its.signalled = true;
    its.alive = false;
    its.wait_status = SIGKILL;
  }
  alive = false;
  close_link("", world.between(0, 20));
}

// Cuts the link. The launcher gives the host up after --host-timeout, the agent ends after 15 times
// that.
void SimulatedAgent::cut_link() {
  cut = true;
  cut_at = world.now();
  note_loss();
  now_unreachable();
  close_link("the host has not answered for 5 s (--host-timeout)", Millis(5000));
  world.in(Millis(75000), [self = shared_from_this()] { self->die(); });
  // Ranks of other hosts may notice in a collective, before the launcher does.
  if (numbers.empty() || !world.chance(0.5)) return;
  for (const auto& other : world.agents)
    for (const int number : other->numbers)
      world.in(world.between(3000, 4900), [other, number] {
        Rank& its = other->rank(number);
        if (other->cut || !other->alive || !its.alive || its.signalled) return;
        if (other->world.elastic && other->world.elastic->uses_hvd) {
          if (its.member.state == Member::State::inside) other->react_to_over(number);
          return;
        }
        its.lost_a_peer = true;
        other->end_rank(number, 1 << 8);
      });
}

}  // namespace hvdrun::simulated
