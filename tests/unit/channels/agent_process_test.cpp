#include "channels/agent_process.hpp"

#include "base/event_loop.hpp"

#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>

namespace hvdrun {
namespace {

class AnAgentsProcess : public testing::Test {
 protected:
  // Starts a shell. It runs until its stdin closes, if the script reads that.
  AgentProcess& start(const std::string& script) {
    auto process = start_watched_child({"sh", "-c", script});
    EXPECT_TRUE(process) << process.error().message;
    input_ = std::move(process->link);
    child_.emplace(loop_, std::move(*process),
                   AgentProcess::Events{[this](std::string line) { events_.push_back(line); },
                                        [this] {
                                          events_.emplace_back("end");
                                          loop_.stop();
                                        }});
    return *child_;
  }

  void expect_reaped(pid_t pid) {
    EXPECT_EQ(::waitpid(pid, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
  }

  EventLoop loop_;
  LinkEnd input_;
  std::optional<AgentProcess> child_;
  std::vector<std::string> events_;
};

TEST_F(AnAgentsProcess, ReportsItsLinesBeforeItsEnd) {
  auto& child = start("echo one >&2; printf two >&2; exit 3");
  EXPECT_FALSE(child.ended());
  loop_.run();
  EXPECT_EQ(events_, (std::vector<std::string>{"one", "two", "end"}));
  EXPECT_EQ(child.text(), "one\ntwo");
  EXPECT_TRUE(child.ended());
  EXPECT_EQ(WEXITSTATUS(child.status()), 3);
  EXPECT_FALSE(child.wait());
  expect_reaped(child.pid());
}

// As a master of ssh in the background does.
TEST_F(AnAgentsProcess, EndsThoughAnotherProcessHoldsItsStderr) {
  auto& child = start("exec 3<&0; read line <&3 & exit 0");
  loop_.run();
  EXPECT_EQ(events_, std::vector<std::string>{"end"});
  EXPECT_TRUE(child.wait());
}

TEST_F(AnAgentsProcess, ReportsNoEndThatItsOwnerHasWaitedFor) {
  auto& child = start("read line; exit 0");
  input_.out.reset();
  EXPECT_TRUE(child.wait());
  EXPECT_TRUE(child.ended());
  EXPECT_TRUE(events_.empty());
  EXPECT_EQ(child.status(), 0);
}

TEST_F(AnAgentsProcess, IsKilledWithItsOwner) {
  const pid_t pid = start("read line").pid();
  child_.reset();
  expect_reaped(pid);
}

}  // namespace
}  // namespace hvdrun
