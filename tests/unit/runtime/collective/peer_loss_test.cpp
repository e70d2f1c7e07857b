// The errors that ranks get when another one dies or leaves. Ranks are processes with a segment in
// a file.
#include "collective/communicator.hpp"
#include "support.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace libhvd {
namespace {

constexpr int kSize = 4;
constexpr int kVictim = 2;

// Rank processes that share a segment without any bootstrap.
class Peers {
 public:
  using Body = std::function<void(Communicator&, const test::Child::Report&)>;

  // Starts the processes. They run the body together, when all have announced themselves.
  explicit Peers(const Body& body) {
    EXPECT_TRUE(created_.ok());
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    Fd start(ends[0]);
    Fd hold(ends[1]);
    for (int rank = 0; rank < kSize; ++rank) {
      children_.emplace_back([&, rank](const test::Child::Report& report) {
        hold.reset();
        auto opened = Segment::open(created_->name(), kSize);
        if (!opened.ok() || !opened->announce(rank).ok()) ::_exit(1);
        Communicator communicator(std::make_shared<Segment>(std::move(*opened)), rank);
        report("here");
        char byte;
        while (::read(start.get(), &byte, 1) > 0) {
        }
        body(communicator, report);
      });
    }
    for (auto& child : children_) EXPECT_EQ(child.line().value_or("nothing"), "here");
  }

  test::Child& rank(int rank) { return children_[static_cast<std::size_t>(rank)]; }

  // Expects that the next line of each survivor has the text.
  void expect_from_survivors(const std::string& text) {
    for (int survivor = 0; survivor < kSize; ++survivor) {
      if (survivor == kVictim) continue;
      const std::string line = rank(survivor).line().value_or("nothing");
      EXPECT_NE(line.find(text), std::string::npos) << "rank " << survivor << ": " << line;
    }
  }

 private:
  test::TemporaryFolder folder_;
  Result<Segment> created_ = Segment::create(folder_.path(), "test", kSize);
  std::vector<test::Child> children_;
};

std::string describe_outcome(const Result<void>& outcome) {
  return outcome.ok() ? "success"
                      : std::to_string(outcome.error().status) + " " + outcome.error().message;
}

Result<void> sum(Communicator& communicator, const char* name) {
  std::vector<double> values(40000, 1);
  return communicator.allreduce(values.data(), values.data(), values.size(), HVD_FLOAT64, HVD_SUM,
                                {name, {}});
}

// Names the rank, so that a survivor that blames another one fails the test.
const std::string kDied = "4 allreduce \"g\": rank 2 (pid ";

TEST(DeadPeer, IsNamedByEveryRankThatWaitsForIt) {
  Peers peers([](Communicator& communicator, const test::Child::Report& report) {
    if (communicator.rank() == kVictim) {
      report("ready");
      ::pause();
    }
    report(describe_outcome(sum(communicator, "g")));
    report(describe_outcome(sum(communicator, "g")));  // fails at once: the death is known
  });
  EXPECT_EQ(peers.rank(kVictim).line(), "ready");
  peers.rank(kVictim).kill();
  peers.expect_from_survivors(kDied);
  for (const int survivor : {0, 1, 3}) {
    EXPECT_NE(peers.rank(survivor).line().value_or("").find(kDied), std::string::npos);
  }
}

TEST(DeadPeer, IsDetectedWhileItIsAZombieAndItsChildLives) {
  Peers peers([](Communicator& communicator, const test::Child::Report& report) {
    if (communicator.rank() == kVictim) test::die_and_leave_a_child(report);
    report(describe_outcome(sum(communicator, "g")));
  });
  peers.expect_from_survivors(kDied);
}

TEST(DeadPeer, IsDetectedWhenItExitsWithoutLeaving) {
  Peers peers([](Communicator& communicator, const test::Child::Report& report) {
    if (communicator.rank() == kVictim) ::_exit(0);
    report(describe_outcome(communicator.barrier({"b", {}})));
  });
  peers.expect_from_survivors("4 barrier \"b\": rank 2 (pid ");
}

// Repeats a small broadcast, whose root does not wait, until it fails.
Result<void> broadcast_until_failure(Communicator& communicator, int root) {
  Result<void> outcome;
  for (int value = 0; outcome.ok(); ++value)
    outcome = communicator.broadcast(&value, 1, HVD_INT32, root, {});
  return outcome;
}

TEST(DeadPeer, IsNamedByEveryRankThatWaitsForItsBroadcast) {
  Peers peers([](Communicator& communicator, const test::Child::Report& report) {
    int value = communicator.rank();
    if (!communicator.barrier({}).ok()) ::_exit(1);
    if (!communicator.broadcast(&value, 1, HVD_INT32, kVictim, {}).ok()) ::_exit(1);
    if (communicator.rank() == kVictim) {
      report("ready");
      ::pause();
    }
    report(value == kVictim ? "it has arrived" : "it has not arrived");
    report(describe_outcome(broadcast_until_failure(communicator, kVictim)));
  });
  EXPECT_EQ(peers.rank(kVictim).line(), "ready");
  peers.expect_from_survivors("it has arrived");
  peers.rank(kVictim).kill();
  peers.expect_from_survivors("4 broadcast: rank 2 (pid ");
}

TEST(DeadPeer, IsNamedByABroadcastRootThatDoesNotWait) {
  Peers peers([](Communicator& communicator, const test::Child::Report& report) {
    if (!communicator.barrier({}).ok()) ::_exit(1);
    if (communicator.rank() == kVictim) {
      report("ready");
      ::pause();
    }
    report(describe_outcome(broadcast_until_failure(communicator, 0)));
  });
  EXPECT_EQ(peers.rank(kVictim).line(), "ready");
  peers.rank(kVictim).kill();
  peers.expect_from_survivors("4 broadcast: rank 2 (pid ");
}

TEST(LeavingPeer, ErrorSaysThatItHasLeft) {
  Peers peers([](Communicator& communicator, const test::Child::Report& report) {
    if (communicator.rank() == kVictim) {
      communicator.leave();
      return;
    }
    const std::string text = describe_outcome(sum(communicator, "g"));
    report(text.find("has left") != std::string::npos ? "rank 2 has left" : text);
  });
  peers.expect_from_survivors("rank 2 has left");
}

TEST(LeavingPeer, DoesNotFailTheCallThatItTookPartIn) {
  for (int round = 0; round < 20; ++round) {
    Peers peers([](Communicator& communicator, const test::Child::Report& report) {
      const Result<void> outcome = sum(communicator, "last");
      communicator.leave();
      report(describe_outcome(outcome));
    });
    peers.expect_from_survivors("success");
  }
}

}  // namespace
}  // namespace libhvd
