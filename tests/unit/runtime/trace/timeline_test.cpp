// Timelines of ranks that are threads, on one host and on two.
#include "trace/timeline.hpp"

#include "engine/engine.hpp"
#include "support.hpp"
#include "trace/call_trace.hpp"
#include "trace_file.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace libhvd::test {
namespace {

constexpr std::size_t kBytes = 64 * 1024;

struct Rank {
  explicit Rank(Communicator& world)
      : communicator(world),
        timeline(world.on_one_host() ? 0 : world.rank() % 2, "h" + std::to_string(world.rank() % 2),
                 TimelineOptions{.path = "", .bytes = kBytes}),
        calls(*timeline.recorder()) {}

  Communicator& communicator;
  Timeline timeline;
  CallTrace calls;

  int number() const { return communicator.rank(); }
  Result<void> start(const std::string& path) { return timeline.start(communicator, path); }
  Result<void> stop() { return timeline.stop(communicator); }

  // Makes an allreduce and records it, like the C ABI.
  void allreduce(std::vector<float>& values, const char* name) {
    allreduce_from(calls.begin(), values, name);
  }
  void allreduce_from(std::uint64_t begin, std::vector<float>& values, const char* name) {
    const Result<void> outcome = communicator.allreduce(values.data(), values.data(), values.size(),
                                                        HVD_FLOAT32, HVD_SUM, {.name = name});
    calls.end(begin, "allreduce", name, communicator.facts(), outcome.ok());
  }
};

void run_timelines(int size, const std::function<void(Rank&)>& body) {
  run_ranks_everywhere(size, [&](Communicator& communicator) {
    Rank rank(communicator);
    body(rank);
  });
}

TEST(Timeline, AllRanksAreInOneFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  for (const int size : {1, 2, 4}) {
    run_timelines(size, [&](Rank& rank) {
      std::vector<float> values(1'000, 1);
      rank.allreduce(values, "before");
      ASSERT_EQ(text_of(rank.start(path)), "ok");
      for (int i = 0; i < 10; ++i) rank.allreduce(values, ("grad." + std::to_string(i)).c_str());
      ASSERT_EQ(text_of(rank.stop()), "ok");
      rank.allreduce(values, "after");
      if (rank.number() != 0) return;
      const auto events = read_trace(path);
      for (int of = 0; of < size; ++of) {
        const auto calls = events_of(events, "collective", of);
        ASSERT_EQ(calls.size(), 10u) << "rank " << of;
        for (std::size_t i = 0; i < calls.size(); ++i) {
          EXPECT_EQ(calls[i]["name"], "allreduce grad." + std::to_string(i));
          EXPECT_EQ(calls[i]["args"]["bytes"], 4'000);
          EXPECT_EQ(calls[i]["args"]["number"], i + 2);
        }
      }
    });
  }
}

double claimed_error_us(const std::string& path) {
  std::ifstream file(path);
  const std::string claimed = Json::parse(file)["otherData"]["clocks agree within us"];
  return std::stod(claimed);
}

// Every rank must begin a collective before any rank ends it. Returns by how much the file differs
// from that, beyond the stated error of the clocks.
double largest_disorder_us(const std::string& path, std::size_t collectives) {
  const double error = claimed_error_us(path);
  const auto events = read_trace(path);
  std::vector<std::vector<Json>> calls;
  for (int of = 0; of < 4; ++of) {
    calls.push_back(events_of(events, "collective", of));
    EXPECT_GE(calls.back().size(), collectives);
    if (calls.back().size() < collectives) return 1e18;
  }
  double most = 0;
  for (std::size_t i = 0; i < collectives; ++i) {
    double last_begin = 0;
    double first_end = 1e18;
    for (const auto& of_rank : calls) {
      last_begin = std::max(last_begin, begin_of(of_rank[i]));
      first_end = std::min(first_end, end_of(of_rank[i]));
    }
    most = std::max(most, last_begin - first_end - 2 * error);
  }
  return most;
}

// All ranks have the same clock, so the truth is known. A rank that is preempted while it reads the
// clock spoils a recording, but hardly ever all of them.
TEST(Timeline, ClocksAreAligned) {
  constexpr int kRecordings = 5;
  constexpr std::size_t kCollectives = 50;
  constexpr double kTickClock = 5;  // two clocks of one host may be microseconds apart
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  std::map<bool, double> least{{true, 1e18}, {false, 1e18}};
  for (int recording = 0; recording < kRecordings; ++recording) {
    run_timelines(4, [&](Rank& rank) {
      ASSERT_EQ(text_of(rank.start(path)), "ok");
      std::vector<float> values(10, 1);
      for (std::size_t i = 0; i < kCollectives; ++i) rank.allreduce(values, "x");
      ASSERT_EQ(text_of(rank.stop()), "ok");
      if (rank.number() != 0) return;
      const bool one_host = rank.communicator.on_one_host();
      if (one_host) {
        EXPECT_EQ(claimed_error_us(path), 0);
      }
      least[one_host] = std::min(least[one_host], largest_disorder_us(path, kCollectives));
    });
  }
  EXPECT_LE(least[true], kTickClock);
  EXPECT_LE(least[false], kTickClock);
}

TEST(Timeline, NamesTheRankThatOthersWaitFor) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  std::atomic<int> begun{0};
  run_timelines(3, [&](Rank& rank) {
    ASSERT_EQ(text_of(rank.start(path)), "ok");
    std::vector<float> values(10, 1);
    if (rank.number() == 1) {
      while (begun.load() < 2) std::this_thread::yield();
      begun = 0;
      // Rank 1 is later than the others by far more than clocks differ.
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
      rank.allreduce(values, "x");
    } else {
      const std::uint64_t begin = rank.calls.begin();
      ++begun;
      rank.allreduce_from(begin, values, "x");
    }
    ASSERT_EQ(text_of(rank.stop()), "ok");
    if (rank.number() != 0) return;
    const auto events = read_trace(path);
    for (const Json& call : events_of(events, "collective"))
      EXPECT_EQ(call["args"]["last"], "rank 1");
    for (const int of : {0, 2}) {
      const Json wait = find_event(events, "wait for rank 1", of);
      ASSERT_FALSE(wait.is_null()) << of;
    }
    EXPECT_TRUE(events_of(events, "wait", 1).empty());
  });
}

TEST(Timeline, ShowsNegotiationsAndOperationsOfTheEngine) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  for (const int size : {1, 2, 4}) {
    run_timelines(size, [&](Rank& rank) {
      const auto started =
          Engine::start(rank.communicator.second(), {.recorder = rank.timeline.recorder()});
      ASSERT_TRUE(started.ok());
      Engine& engine = **started;
      ASSERT_EQ(text_of(rank.start(path)), "ok");
      constexpr int kTensors = 20;
      std::vector<std::vector<float>> tensors(kTensors, std::vector<float>(10, 1));
      std::vector<std::int64_t> handles;
      for (int i = 0; i < kTensors; ++i) {
        const auto own = static_cast<std::size_t>((i * 7 + rank.number()) % kTensors);
        float* const data = tensors[own].data();
        Request request;
        request.kind = "allreduce";
        request.name = "t" + std::to_string(own);
        request.allreduce = AllreduceArguments{data, data, 10, HVD_FLOAT32, HVD_SUM};
        request.run = [data](Communicator& communicator, const CallOptions& options) {
          return communicator.allreduce(data, data, 10, HVD_FLOAT32, HVD_SUM, options);
        };
        handles.push_back(*engine.submit(std::move(request)));
      }
      for (const std::int64_t handle : handles) ASSERT_EQ(text_of(engine.wait(handle)), "ok");
      ASSERT_EQ(text_of(rank.stop()), "ok");
      ASSERT_EQ(text_of(rank.communicator.barrier({})), "ok");
      engine.stop();
      if (rank.number() != 0) return;
      const auto events = read_trace(path);
      for (int of = 0; of < size; ++of) {
        EXPECT_EQ(events_of(events, "negotiation", of).size(), std::size_t{kTensors}) << of;
        std::set<std::string> done;
        for (const Json& operation : events_of(events, "operation", of)) {
          const Json& arguments = operation["args"];
          EXPECT_EQ(arguments["type"], "float32");
          if (arguments.contains("tensor")) done.insert(arguments["tensor"]);
          if (arguments.contains("tensors")) {
            for (const Json& name : arguments["tensors"]) done.insert(name);
          }
        }
        EXPECT_EQ(done.size(), std::size_t{kTensors}) << of;
      }
    });
  }
}

TEST(Timeline, MayBeStartedAgain) {
  const TemporaryFolder folder;
  run_timelines(2, [&](Rank& rank) {
    std::vector<float> values(10, 1);
    for (int round = 0; round < 3; ++round) {
      const std::string path = folder.file("t") + std::to_string(round);
      ASSERT_EQ(text_of(rank.start(path)), "ok");
      rank.allreduce(values, ("round " + std::to_string(round)).c_str());
      ASSERT_EQ(text_of(rank.stop()), "ok");
      if (rank.number() != 0) continue;
      const auto calls = events_of(read_trace(path), "collective");
      ASSERT_EQ(calls.size(), 2u);
      EXPECT_EQ(calls[0]["name"], "allreduce round " + std::to_string(round));
    }
  });
}

TEST(Timeline, InvalidCallsFailOnEveryRank) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t");
  run_timelines(3, [&](Rank& rank) {
    const auto expect = [&](const Result<void>& outcome, const std::string& text) {
      const std::string own = text_of(outcome);
      EXPECT_NE(own.find(text), std::string::npos) << "rank " << rank.number() << ": " << own;
    };
    expect(rank.stop(), "the timeline does not run");
    expect(rank.start(""), "the timeline's path is empty");
    expect(rank.start(folder.file("no/t")), "No such file or directory");
    expect(rank.start(folder.path()), "it is no plain file");
    expect(rank.start("/dev/null"), "cannot write the timeline to /dev/null: it is no plain file");
    ASSERT_EQ(text_of(rank.start(rank.number() == 0 ? path : "")),
              "ok");  // only rank 0's path is used
    expect(rank.start(path), "the timeline runs already");
    ASSERT_EQ(text_of(rank.stop()), "ok");
  });
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST(Timeline, AFolderThatIsRemovedBeforeStopFailsOnEveryRank) {
  const TemporaryFolder folder;
  run_timelines(2, [&](Rank& rank) {
    const std::string gone = folder.file("gone");
    if (rank.number() == 0) std::filesystem::create_directory(gone);
    ASSERT_EQ(text_of(rank.start(gone + "/t")), "ok");
    if (rank.number() == 0) std::filesystem::remove_all(gone);
    const std::string own = text_of(rank.stop());
    EXPECT_NE(own.find("No such file or directory"), std::string::npos) << own;
    EXPECT_FALSE(rank.timeline.running());
  });
}

TEST(Timeline, AfterARankHasLeftEachRankWritesItsOwnFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t");
  run_timelines(3, [&](Rank& rank) {
    ASSERT_EQ(text_of(rank.start(path)), "ok");
    std::vector<float> values(10, 1);
    rank.allreduce(values, "x");
    if (rank.number() == 2) return;  // its recording is written by the destructor
    const std::string own = text_of(rank.stop());
    EXPECT_NE(own.find("rank 2"), std::string::npos) << own;
    EXPECT_FALSE(rank.timeline.running());
  });
  for (int rank = 0; rank < 3; ++rank) {
    const auto events = read_trace(rank == 0 ? path : path + ".rank" + std::to_string(rank));
    EXPECT_FALSE(find_event(events, "allreduce x", rank).is_null()) << rank;
  }
}

TEST(Timeline, DroppedEventsAreReported) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t");
  run_timelines(2, [&](Rank& rank) {
    ASSERT_EQ(text_of(rank.start(path)), "ok");
    std::vector<float> value(1, 1);
    constexpr int kRoom = static_cast<int>(kBytes / sizeof(Event));
    const int marks = rank.number() == 1 ? kRoom + 100 : 0;
    for (int i = 0; i < marks; ++i) rank.timeline.recorder()->mark(EventKind::step, 1);
    rank.allreduce(value, "one");
    ASSERT_EQ(text_of(rank.stop()), "ok");
    if (rank.number() != 0) return;
    const auto events = read_trace(path);
    EXPECT_TRUE(find_event(events, "process_labels", 0).is_null());
    EXPECT_EQ(find_event(events, "process_labels", 1)["args"]["labels"], "101 events dropped");
  });
}

TEST(TimelineOptions, AreReadFromTheEnvironment) {
  const auto read = [](std::map<std::string, std::string> variables) {
    return read_timeline_options(make_environment(std::move(variables)));
  };
  EXPECT_EQ(read({})->path, "");
  EXPECT_EQ(read({})->bytes, Recorder::kDefaultBytes);
  EXPECT_EQ(read({{"HVD_TIMELINE", "a"}, {"HOROVOD_TIMELINE", "b"}})->path, "a");
  EXPECT_EQ(read({{"HVD_TIMELINE", ""}, {"HOROVOD_TIMELINE", "b"}})->path, "b");
  EXPECT_EQ(read({{"HOROVOD_TIMELINE", "DYNAMIC"}})->path, "");
  EXPECT_EQ(read({{"HVD_TIMELINE", "DYNAMIC"}})->path, "");
  EXPECT_TRUE(read({{"HOROVOD_TIMELINE", "b"}})->horovods_words);
  EXPECT_FALSE(read({{"HVD_TIMELINE", "a"}, {"HOROVOD_TIMELINE", "b"}})->horovods_words);
  EXPECT_TRUE(read({{"HOROVOD_TIMELINE_MARK_CYCLES", "1"}})->mark_cycles);
  EXPECT_FALSE(read({{"HOROVOD_TIMELINE_MARK_CYCLES", "0"}})->mark_cycles);
  EXPECT_EQ(read({{"HVD_TIMELINE_MB", "3"}})->bytes, 3u << 20);
  EXPECT_EQ(read({{"HVD_TIMELINE_MB", "none"}}).error().status, HVD_ERROR_ENVIRONMENT);
}

}  // namespace
}  // namespace libhvd::test
