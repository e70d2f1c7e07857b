// Whom a question is asked, when it ends, and what is known then.
#include "job/question.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

// Keeps the numbers of the questions that an agent was sent.
class Listener final : public FrameSender {
 public:
  explicit Listener(std::vector<std::uint32_t>& heard) : heard_(heard) {}
  void send(FrameType type, std::uint32_t /*destination*/, std::string_view payload) override {
    if (type == FrameType::question)
      heard_.push_back(parse<QuestionMessage>(payload).value().number);
  }
  void send_shared(FrameType /*type*/, std::uint32_t /*destination*/,
                   const SharedPayload& /*payload*/) override {}

 private:
  std::vector<std::uint32_t>& heard_;
};

class ThreeAgents final : public Agents {
 public:
  ThreeAgents() : Agents({{}, {}, [](AgentState&) {}}) {
    for (std::size_t host = 0; host < 3; ++host) {
      auto& agent = add_agent(Host{});
      agent.link = std::make_unique<Listener>(heard[host]);
      started(agent);
    }
  }

  // The agent was killed, and another one logs in: it has no link yet.
  void start_again_on(std::size_t host) {
    end(on_host(host));
    add_successor(on_host(host));
  }
  void connect(std::size_t host) {
    auto& agent = on_host(host);
    agent.link = std::make_unique<Listener>(heard[host]);
    started(agent);
  }

  Result<void> start(Start /*start*/) override { return {}; }
  std::string stage(const AgentState& /*agent*/) const override { return {}; }
  void give_up(AgentState& /*agent*/, std::string /*why*/) override {}
  std::vector<std::string> kill() override { return {}; }
  std::string last_note() const override { return {}; }
  std::vector<std::string> reap(const std::vector<pid_t>& /*spare*/) override { return {}; }

  std::vector<std::uint32_t> heard[3];  // by host

 private:
  void cut_starting() override {}
};

struct NoTime final : TimeSource {
  Clock::time_point now() const override { return time; }
  bool run_due() override { return false; }
  bool pass(std::optional<Clock::time_point> limit) override {
    if (limit) time = std::max(time, *limit);
    return limit.has_value();
  }
  Clock::time_point time{};
};

class QuestionTest : public testing::Test {
 protected:
  void ask(milliseconds limit = kAnswerTime) {
    question_.ask(*questions_, {.wanted = Wanted::pages}, limit, [this](const Answers& answers) {
      answers_ = answers;
      ended_at_ = time_.now();
    });
  }
  void answer(std::size_t host, std::uint32_t number, bool more = false) {
    AnswerMessage message;
    message.number = number;
    message.more = more;
    questions_->take(host, std::move(message));
  }
  bool ended() const { return answers_.has_value(); }

  NoTime time_;
  EventLoop loop_{&time_};
  ThreeAgents agents_;
  std::unique_ptr<Questions> questions_ = std::make_unique<Questions>(agents_);
  Question question_{loop_};
  std::optional<Answers> answers_;
  TimeSource::Clock::time_point ended_at_;
};

TEST_F(QuestionTest, EndsWithTheLastAnswer) {
  ask();
  answer(0, 1);
  answer(2, 1, true);
  answer(1, 1);
  EXPECT_FALSE(ended());
  answer(2, 1);
  ASSERT_TRUE(ended());
  EXPECT_THAT(answers_->asked, ElementsAre(0, 1, 2));
  EXPECT_EQ(answers_->by_host.size(), 3U);
  EXPECT_THAT(answers_->silent(), IsEmpty());
}

TEST_F(QuestionTest, EndsAtItsLimitAndNamesTheSilent) {
  ask();
  answer(0, 1);
  answer(1, 1, true);
  loop_.run();
  ASSERT_TRUE(ended());
  EXPECT_GE(ended_at_.time_since_epoch(), kAnswerTime);
  EXPECT_THAT(answers_->silent(), ElementsAre(2));
  EXPECT_TRUE(answers_->by_host[1].more);
}

TEST_F(QuestionTest, EndsWithTheLossOfTheLastOneThatWasAwaited) {
  ask();
  answer(0, 1);
  answer(1, 1);
  questions_->lose(2);
  ASSERT_TRUE(ended());
  EXPECT_THAT(answers_->lost, ElementsAre(2));
  EXPECT_THAT(answers_->silent(), IsEmpty());
}

TEST_F(QuestionTest, IsNotForAnAgentThatIsBeingStartedAgain) {
  agents_.start_again_on(1);
  ask();
  EXPECT_THAT(agents_.heard[1], IsEmpty());
  answer(0, 1);
  answer(2, 1);
  ASSERT_TRUE(ended());
  EXPECT_THAT(answers_->asked, ElementsAre(0, 2));
  agents_.connect(1);
  ask();
  EXPECT_THAT(agents_.heard[1], ElementsAre(2));
}

TEST_F(QuestionTest, TakesNoAnswerToAnEarlierOne) {
  ask(milliseconds(100));
  loop_.run();
  answers_.reset();
  ask();
  for (const std::size_t host : {0, 1, 2}) answer(host, 1);
  EXPECT_FALSE(ended());
  for (const std::size_t host : {0, 1, 2}) answer(host, 2);
  EXPECT_TRUE(ended());
}

TEST_F(QuestionTest, TakesOneAnswerOfEachHost) {
  ask();
  for (int time = 0; time < 3; ++time) answer(0, 1);
  EXPECT_FALSE(ended());
}

TEST_F(QuestionTest, WithoutAnAgentEndsFromTheLoop) {
  for (const std::size_t host : {0, 1, 2}) agents_.start_again_on(host);
  ask();
  EXPECT_FALSE(ended());
  loop_.run();
  EXPECT_TRUE(ended());
}

TEST_F(QuestionTest, EndsWithItsAttempt) {
  ask();
  answer(0, 1);
  questions_.reset();
  ASSERT_TRUE(ended());
  EXPECT_EQ(answers_->by_host.size(), 1U);
  EXPECT_FALSE(question_.is_open());
}

TEST_F(QuestionTest, MayBeAskedAgainWhenItEnds) {
  int times = 0;
  std::function<void(const Answers&)> again = [&](const Answers&) {
    if (++times < 3) question_.ask(*questions_, {}, milliseconds(10), again);
  };
  question_.ask(*questions_, {}, milliseconds(10), again);
  loop_.run();
  EXPECT_EQ(times, 3);
  EXPECT_THAT(agents_.heard[0], ElementsAre(1, 2, 3));
}

TEST_F(QuestionTest, ThatIsDroppedIsNeverAnswered) {
  ask();
  question_.drop();
  for (const std::size_t host : {0, 1, 2}) answer(host, 1);
  loop_.run();
  EXPECT_FALSE(ended());
}

}  // namespace
}  // namespace hvdrun
