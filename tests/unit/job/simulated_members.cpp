// Ranks of an elastic job in the simulated world: what they say to the launcher, and what they do
// when it says something.
#include "common/agent_messages.hpp"
#include "protocol/member_messages.hpp"
#include "simulated_job.hpp"

#include <gtest/gtest.h>

namespace hvdrun::simulated {
namespace {

// A frame that is on its way when the launcher decides.
constexpr Millis kOnItsWay{20};
// A rank that waits for others longer than this never ends by itself. Then the history fails.
constexpr std::chrono::seconds kForever{20000};

constexpr std::chrono::seconds kUserNotices{600};
constexpr std::chrono::seconds kStartTimeout{120};

}  // namespace

// Does a step of a member's life, unless it has ended, or has made another move meanwhile.
void SimulatedAgent::act(int number, Millis delay,
                         const std::function<void(SimulatedAgent&, Rank&)>& step) {
  const int moves = rank(number).member.moves;
  world.in(delay, [self = shared_from_this(), number, moves, step] {
    Rank& its = self->rank(number);
    if (its.alive && !its.signalled && !its.member.stopped && its.member.moves == moves)
      step(*self, its);
  });
}

void SimulatedAgent::begin_member(int number) {
  if (!world.elastic->uses_hvd) return;
  rank(number).member.swallows = world.chance(0.03);
  const auto time = world.chance(0.03) ? world.between(5000, 100000) : world.between(1, 2000);
  act(number, time,
      [number](SimulatedAgent& self, Rank&) { self.come(number, ComeReason::start); });
}

// Starts ranks while others run. Their first session is their own, so that they come later. A
// program that does not form new generations never comes.
void SimulatedAgent::start_more(const std::string& payload) {
  if (stopping) return;
  StartedMessage started;
  const auto message = parse<StartMoreMessage>(payload).value();
  for (const auto& each : message.ranks) {
    world.say("{}: rank {} is started", host, each.rank);
    numbers.push_back(each.rank);
    Rank& its = rank(each.rank);
    its.started = its.alive = true;
    if (world.elastic->uses_hvd && world.elastic->reforms) begin_member(each.rank);
    started.pids.emplace_back(each.rank, 1000 + each.rank);
    let_live(each.rank);
  }
  send(FrameType::started, pack(started));
}

// Sends a frame of a member, when the agent runs.
void SimulatedAgent::send_of_member(int number, FrameType type, std::uint32_t generation,
                                    const std::string& payload) {
  if (!rank(number).member.connected) return;
  when_it_runs(Millis(0), [this, number, type, generation, payload] {
    Member& member = rank(number).member;
    (type == FrameType::come ? member.to_come : member.for_part).answered = world.now();
    send(type, pack_from_member({static_cast<std::uint32_t>(number), generation, payload}));
  });
}

bool SimulatedAgent::dies_here(int number) {
  if (!world.chance(world.chances.member_dies)) return false;
  world.say("{}: rank {} dies in its tracks", host, number);
  end_rank(number, SIGKILL);
  return true;
}

void SimulatedAgent::come(int number, ComeReason why) {
  if (dies_here(number)) return;
  Member& member = rank(number).member;
  MemberCome message;
  message.last_generation = member.generation;
  message.why = why;
  message.commits = message.step = member.commits;
  const auto& generations = world.attempts[attempt_index].generations;
  if (why == ComeReason::failed && member.state == Member::State::wiring && world.chance(0.5)) {
    const auto& members = generations.back().members;
    const auto at =
        static_cast<std::size_t>(world.between(0, static_cast<int>(members.size()) - 1).count());
    message.failure = SeenFailure::silent;
    message.accused = members[at];
    world.attempts[attempt_index].members_accused = true;
  }
  ++member.moves;
  if (member.state == Member::State::left)
    world.attempts[attempt_index].one_came_after_leaving = true;
  member.state = Member::State::coming;
  world.say("{}: rank {} comes", host, number);
  send_of_member(number, FrameType::come, member.generation, encode(message));
  dies_here(number);
}

void SimulatedAgent::take_part(int number, std::uint32_t exchange) {
  if (dies_here(number)) return;
  Member& member = rank(number).member;
  if (world.chance(world.chances.member_is_stopped)) return stop_member(number);
  if (world.chance(world.chances.collective_fails)) return fail_wiring(number);
  send_of_member(number, FrameType::part, member.generation,
                 encode(MemberPart{exchange, std::to_string(number)}));
}

void SimulatedAgent::fail_wiring(int number) {
  world.attempts[attempt_index].one_wiring_failed = true;
  if (world.elastic->reforms)
    come(number, ComeReason::failed);
  else
    end_rank(number, 1 << 8);
}

// A rank that is stopped by a signal. After a while its user kills it.
void SimulatedAgent::stop_member(int number) {
  world.say("{}: rank {} is stopped", host, number);
  rank(number).member.stopped = true;
  world.in(kUserNotices, [self = shared_from_this(), number] {
    if (!self->rank(number).signalled) self->end_rank(number, SIGKILL);
  });
}

void SimulatedAgent::go_inside(int number) {
  Member& member = rank(number).member;
  ++member.moves;
  member.state = Member::State::inside;
  if (rank(number).is_later)  // it has got the state of another one
    for (const auto& generation : world.attempts[attempt_index].generations)
      if (generation.number == member.generation)
        member.commits = std::max(member.commits, generation.most_commits);
  if (dies_here(number)) return;
  for (int i = 0; i < 3; ++i)
    act(number, world.between(1, 3000), [](SimulatedAgent&, Rank& its) {
      its.member.commits_in[its.member.generation] = ++its.member.commits;
    });
  if (world.elastic->reforms && world.chance(world.chances.collective_fails))
    act(number, world.between(1, 3000),
        [number](SimulatedAgent& self, Rank&) { self.react_to_over(number); });
  if (world.chance(world.chances.member_disconnects))
    act(number, world.between(1, 3000),
        [number](SimulatedAgent& self, Rank&) { self.lose_connection(number); });
}

void SimulatedAgent::lose_connection(int number) {
  world.say("{}: rank {} loses its connection", host, number);
  rank(number).member.connected = false;
  world.in(Millis(1000), [self = shared_from_this(), number] {
    if (!self->rank(number).alive) return;
    self->when_it_runs(Millis(0), [self, number] {
      Rank& its = self->rank(number);
      if (!its.alive) return;
      its.member.disconnection_reported = true;
      self->send(FrameType::disconnected,
                 pack_from_member({static_cast<std::uint32_t>(number), 0, {}}));
    });
  });
}

// The program's end: hvd_shutdown, and then exit(0). A member that waits for others ends later.
void SimulatedAgent::finish_member_later(int number, Millis delay) {
  if (world.now().time_since_epoch() > kForever) return;
  world.in(delay, [self = shared_from_this(), number] {
    const Rank& its = self->rank(number);
    if (its.alive && !its.signalled && !its.member.stopped) self->finish_member(number);
  });
}

// The program's end: hvd_shutdown, and then exit(0). A member that waits for others ends later.
void SimulatedAgent::finish_member(int number) {
  Member& member = rank(number).member;
  if (member.state != Member::State::inside)
    return finish_member_later(number, world.between(200, 2000));
  ++member.moves;
  if (!member.connected || world.chance(0.03)) {
    world.attempts[attempt_index].one_ended_without_leaving = true;
    return end_rank(number, 0);
  }
  member.state = Member::State::left;
  member.has_left = true;
  send_of_member(number, FrameType::leave, member.generation, {});
  if (world.chance(0.05)) {
    act(number, world.between(1, 500), [number](SimulatedAgent& self, Rank&) {
      self.come(number, ComeReason::start);
      self.finish_member_later(number, self.world.between(1, 5000));
    });
    return;
  }
  const int code = world.chance(world.chances.member_dies) ? 3 : 0;
  act(number, world.between(0, 200),
      [number, code](SimulatedAgent& self, Rank&) { self.end_rank(number, code << 8); });
}

// --- what the launcher says ----------------------------------------------------------------------

void SimulatedAgent::pass_to_members(FrameType type, const std::string& payload) {
  const auto message = parse_to_members(payload).value();
  for (const auto member : message.members) {
    const int number = static_cast<int>(member);
    if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) continue;
    auto& last = rank(number).member.last_read;
    last = std::max(last, world.now() + world.between(0, 10));
    world.at(last, [self = shared_from_this(), number, type, generation = message.generation,
                    text = std::string(message.payload)] {
      const Rank& its = self->rank(number);
      if (its.alive && !its.signalled && !its.member.stopped && its.member.connected)
        self->member_reads(number, type, generation, text);
    });
  }
}

void SimulatedAgent::member_reads(int number, FrameType type, std::uint32_t generation,
                                  const std::string& payload) {
  Member& member = rank(number).member;
  if (member.fails) return;
  using State = Member::State;
  const auto take_part_soon = [&](std::uint32_t exchange) {
    act(number, world.between(0, 50),
        [number, exchange](SimulatedAgent& self, Rank&) { self.take_part(number, exchange); });
  };
  if (type == FrameType::over && (member.state == State::inside || member.state == State::wiring)) {
    react_to_over(number);
  } else if (type == FrameType::updated && member.state == State::inside) {
    ++member.moves;
    act(number, world.between(0, 300),
        [number](SimulatedAgent& self, Rank&) { self.come(number, ComeReason::asked); });
  } else if (type == FrameType::removed && member.state == State::coming) {
    // It had left, and has come again when others had finished.
    act(number, world.between(0, 200),
        [number](SimulatedAgent& self, Rank&) { self.end_rank(number, 0); });
  } else if (type == FrameType::go && member.state == State::coming) {
    ++member.moves;
    EXPECT_GT(generation, member.generation) << number;
    member.state = State::wiring;
    member.generation = generation;
    take_part_soon(1);
    act(number, kStartTimeout, [number](SimulatedAgent& self, Rank&) { self.fail_wiring(number); });
  } else if (type == FrameType::parts && member.state == State::wiring &&
             generation == member.generation) {
    const auto parts = decode_parts({AgentFrameKind::parts, generation, payload}).value();
    if (parts.exchange == kLastExchange) return go_inside(number);
    take_part_soon(parts.exchange + 1);
  }
}

void SimulatedAgent::react_to_over(int number) {
  Member& member = rank(number).member;
  if (member.fails || dies_here(number)) return;
  ++member.moves;
  if (!world.elastic->reforms) return fail_for_a_peer(number, world.between(0, 300));
  if (member.swallows && member.state == Member::State::wiring) return stop_member(number);
  if (member.swallows) return;
  const auto time =
      world.chance(0.02)
          ? world.between(0, 2 * static_cast<int>(world.elastic->reset_timeout.count()))
          : world.between(0, 300);
  act(number, time,
      [number](SimulatedAgent& self, Rank&) { self.come(number, ComeReason::failed); });
}

void SimulatedAgent::end_member(int number) {
  Rank& its = rank(number);
  if (!its.alive) return;
  its.signalled = true;
  world.attempts[attempt_index].members_ended = true;
  world.in(world.between(0, 5),
           [self = shared_from_this(), number] { self->end_rank(number, SIGKILL); });
}

// --- a program that does not reform --------------------------------------------------------------

void SimulatedAgent::fail_for_a_peer(int number, Millis delay) {
  act(number, delay, [number](SimulatedAgent& self, Rank& its) {
    if (its.member.fails) return;
    its.lost_a_peer = true;
    self.end_rank(number, 1 << 8);
  });
}

// Closes its connections some time before its end, so that the others may end before it does.
void SimulatedAgent::fail_slowly(int number) {
  world.say("{}: rank {} fails", host, number);
  rank(number).member.fails = true;
  ++rank(number).member.moves;
  act(number, world.between(0, 500),
      [number](SimulatedAgent& self, Rank&) { self.end_rank(number, 3 << 8); });
  if (world.attempts[attempt_index].never_joined(static_cast<std::size_t>(number))) return;
  for (const auto& other : world.agents)
    for (const int peer : other->numbers)
      if (peer != number && other->rank(peer).alive &&
          other->rank(peer).member.state == Member::State::inside)
        other->fail_for_a_peer(peer, world.between(1, 400));
}

// --- what the launcher does, at once -------------------------------------------------------------

void SimulatedAgent::note_sent(FrameType type, const std::string& payload) {
  AttemptTruth& truth = world.attempts[attempt_index];
  if (type == FrameType::end_member)
    truth.members_ended = true;  // one that has died meanwhile, too
  if (type == FrameType::end_member)
    return check_end_member(static_cast<int>(*parse_number(payload)));
  if (type == FrameType::start_more) return note_more(payload);
  if (type != FrameType::over && type != FrameType::go && type != FrameType::parts) return;
  const auto message = parse_to_members(payload).value();
  const bool is_last =
      type == FrameType::parts &&
      decode_parts({AgentFrameKind::parts, message.generation, message.payload})->exchange ==
          kLastExchange;
  for (const auto member : message.members) {
    if (is_last) break;
    Member& its = truth.ranks[member].member;
    if (type != FrameType::over)
      its.for_part.ask(world.now());
    else if (!its.to_come.is_open())
      its.to_come.ask(world.now());
  }
  if (type != FrameType::go ||
      (!truth.generations.empty() && truth.generations.back().number == message.generation))
    return;
  Generation next{message.generation, message.members, 0};
  bool one_is_done = false;
  for (const auto& rank : truth.ranks)
    one_is_done = one_is_done || rank.member.state == Member::State::left ||
                  (rank.started && !rank.alive && rank.wait_status == 0);
  EXPECT_TRUE(one_is_done || next.members.size() >= world.elastic->least)
      << "generation " << next.number << " is too small";
  for (const auto member : next.members)
    next.most_commits = std::max(next.most_commits, truth.ranks[member].member.commits);
  if (!truth.generations.empty()) {
    EXPECT_GT(next.number, truth.generations.back().number);
  }
  truth.generations.push_back(std::move(next));
}

void SimulatedAgent::note_more(const std::string& payload) {
  AttemptTruth& truth = world.attempts[attempt_index];
  EXPECT_TRUE(world.elastic && world.elastic->grows);
  const auto message = parse<StartMoreMessage>(payload).value();
  for (const auto& each : message.ranks) {
    // Messages to several agents may be sent in another order than that of their ranks.
    while (truth.ranks.size() <= static_cast<std::size_t>(each.rank))
      world.add_rank(truth).is_later = true;
  }
}

// A living member is ended only if it is late, disconnected, or cannot be reached.
void SimulatedAgent::check_end_member(int number) {
  const AttemptTruth& truth = world.attempts[attempt_index];
  const Rank& its = rank(number);
  const Member& member = its.member;
  if (!its.alive || truth.disturbed || truth.members_accused || member.disconnection_reported)
    return;
  const auto is_late = [this](const Question& question) {
    const auto now = world.now();
    return question.asked && now - *question.asked >= world.elastic->reset_timeout &&
           (question.is_open() || now - *question.answered <= kOnItsWay);
  };
  EXPECT_TRUE(is_late(member.to_come) || is_late(member.for_part))
      << "rank " << number << " is ended without need";
}

}  // namespace hvdrun::simulated
