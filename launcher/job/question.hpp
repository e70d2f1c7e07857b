// The one way to ask the agents of an attempt what their ranks do. A question goes to all agents
// that can answer. It ends with the last answer, when those that have not answered are lost, or at
// its limit: an agent that is stopped, or whose host hangs, keeps nothing from the others. Who asks
// learns which hosts were silent.
//
// Who asks owns its Question; the attempt owns the Questions, through which answers come. Loop
// thread only; nothing fails.
#pragma once

#include "base/event_loop.hpp"
#include "job/agents.hpp"
#include "protocol/messages.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>

namespace hvdrun {

// Enough for a host that is busy. It answers in milliseconds otherwise.
inline constexpr std::chrono::milliseconds kAnswerTime{1000};

struct Answers {
  std::set<std::size_t> asked;                   // hosts, by index
  std::map<std::size_t, AnswerMessage> by_host;  // perhaps with more to come
  std::set<std::size_t> lost;  // those whose agents were lost before they had answered

  // Returns the hosts that have said nothing in time.
  std::set<std::size_t> silent() const;
};

class Question;

// The open questions of one attempt.
class Questions {
 public:
  explicit Questions(Agents& agents) : agents_(agents) {}
  // Ends those that are open.
  ~Questions();
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;

  // An agent has answered.
  void take(std::size_t host, AnswerMessage answer);
  // The agent of this host is gone.
  void lose(std::size_t host);

 private:
  friend class Question;

  Agents& agents_;
  std::uint32_t last_number_ = 0;
  std::map<std::uint32_t, Question*> open_;  // by number
};

class Question {
 public:
  using Done = std::function<void(const Answers& answers)>;

  explicit Question(const EventLoop& loop) : limit_(loop, [this] { cut(); }) {}
  // Drops it if it is open.
  ~Question() { drop(); }
  Question(const Question&) = delete;
  Question& operator=(const Question&) = delete;

  // Sends the question; its number is set here. Calls `done` once, never within ask(). An open
  // question of this object is dropped.
  void ask(Questions& questions, QuestionMessage message, std::chrono::milliseconds limit,
           Done done);
  bool is_open() const { return questions_ != nullptr; }
  // Change an open question: limit() sets what is left of its time, cut() ends it at once, and
  // drop() ends it without an answer.
  void limit(std::chrono::milliseconds left);
  void cut();
  void drop();

 private:
  friend class Questions;
  void take(std::size_t host, AnswerMessage answer);
  void lose(std::size_t host);
  void end_if_complete();

  Questions* questions_ = nullptr;  // null: it is not open
  std::uint32_t number_ = 0;
  Answers answers_;
  std::set<std::size_t> awaited_;
  TimeoutTimer limit_;
  Done done_;
};

}  // namespace hvdrun
