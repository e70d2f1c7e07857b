// The timeline through the C ABI and the C++ API, with ranks as processes.
#include "support.hpp"
#include "trace_file.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <hvd/hvd.hpp>
#include <hvd/timeline.hpp>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

extern "C" int use_the_timeline_from_c(const char* path);

namespace libhvd::test {
namespace {

using Report = Child::Report;

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Makes three training steps.
void train() {
  hvd::set_epoch(0);
  std::vector<float> values(100, 1);
  for (std::uint64_t step = 1; step <= 3; ++step) {
    {
      const hvd::Span span("load data");
      hvd::barrier();
    }
    hvd::allreduce(std::span(values), hvd::Op::average);
    hvd::allreduce_async(std::span(values), hvd::Op::sum, "metrics").wait();
    hvd::set_step(step);
  }
}

void expect_training(const std::vector<Json>& events, int rank) {
  EXPECT_EQ(events_of(events, "program", rank).size(), 3u) << rank;
  const Json load = find_event(events, "load data", rank);
  const Json inside = find_event(events, "barrier", rank);
  ASSERT_FALSE(load.is_null() || inside.is_null()) << rank;
  EXPECT_LE(begin_of(load), begin_of(inside)) << rank;
  EXPECT_GE(end_of(load), end_of(inside)) << rank;
  EXPECT_EQ(load["tid"], inside["tid"]) << rank;
  EXPECT_FALSE(find_event(events, "allreduce", rank).is_null()) << rank;
  EXPECT_EQ(events_of(events, "negotiation", rank).size(), 3u) << rank;
  EXPECT_NE(find_event(events, "allreduce metrics", rank)["tid"], load["tid"]) << rank;
  EXPECT_FALSE(find_event(events, "step 3", rank).is_null()) << rank;
  EXPECT_FALSE(find_event(events, "epoch 0", rank).is_null()) << rank;
}

std::string own_path(const std::string& path, int rank) {
  return rank == 0 ? path : path + ".rank" + std::to_string(rank);
}

// Returns the events of a JSON array whose end may be missing.
std::vector<Json> events_of_journal(const std::string& path) {
  const std::string text = content_of(path);
  const Json events = Json::parse(text + "]", nullptr, false);
  EXPECT_TRUE(events.is_array()) << path << " is no timeline: " << text;
  return events.is_array() ? events.get<std::vector<Json>>() : std::vector<Json>();
}

bool has_step_3(const std::vector<Json>& events) {
  return !find_event(events, "step 3").is_null();
}

void expect_end(Job& job) {
  for (int rank = 0; rank < job.size(); ++rank)
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "end") << "rank " << rank;
}

Job::Body whole_training() {
  return [](int, const Report& report) {
    hvd::init();
    train();
    hvd::shutdown();
    report("end");
  };
}

TEST(TimelineAbi, TheEnvironmentStartsItAndShutdownWritesIt) {
  for (const int size : {1, 2, 4}) {
    const TemporaryFolder folder;
    const std::string path = folder.file("t.json");
    Job job(size, whole_training(), {{"HVD_TIMELINE", path}});
    expect_end(job);
    const auto events = read_trace(path);
    for (int rank = 0; rank < size; ++rank) expect_training(events, rank);
    EXPECT_EQ(folder.entries().size(), 1u);
  }
}

// Rank 2 leads the second session, and was not in the first.
TEST(TimelineAbi, EachSessionOfTheJobHasAFile) {
  const TemporaryFolder folder;
  const auto body = [](int rank, const auto& report) {
    for (const std::vector<int>& ranks : {std::vector{0, 1}, std::vector{2, 1}}) {
      if (std::find(ranks.begin(), ranks.end(), rank) == ranks.end()) continue;
      hvd::init({.ranks = ranks});
      train();
      hvd::shutdown();
    }
    report("end");
  };
  Job job(3, body, {{"HVD_TIMELINE", folder.file("t.json")}});
  expect_end(job);
  EXPECT_EQ(folder.entries().size(), 2u);
  for (const char* name : {"t.json", "t.generation-2.json"}) {
    const auto events = read_trace(folder.file(name));
    for (int rank = 0; rank < 2; ++rank) expect_training(events, rank);
  }
}

TEST(TimelineAbi, ShowsTheRanksOfSeveralHosts) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  Job job(std::vector<int>{0, 1, 0, 1}, whole_training(), {{"HVD_TIMELINE", path}});
  expect_end(job);
  const auto events = read_trace(path);
  for (int rank = 0; rank < 4; ++rank) {
    expect_training(events, rank);
    const std::string name = "rank " + std::to_string(rank) + (rank % 2 == 0 ? " (a)" : " (b)");
    EXPECT_EQ(find_event(events, "process_name", rank)["args"]["name"], name);
  }
}

// One process set exists when the timeline starts. Another one is added and removed while it runs.
TEST(TimelineAbi, ShowsTheCallsOfProcessSets) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  const auto sum_on = [](const hvd::ProcessSet& set, const char* name) {
    hvd::Options options(name);
    options.on = set;
    std::vector<float> values(100, 1);
    if (set.included()) hvd::allreduce(std::span(values), hvd::Op::sum, options);
  };
  const auto body = [&](int rank, const Report& report) {
    hvd::init({.process_sets = {{0, 1}}});
    hvd::start_timeline(rank == 0 ? path : "");
    sum_on(hvd::ProcessSet::from_id(1), "early");
    hvd::ProcessSet late({1, 2});
    sum_on(late, "late");
    sum_on({}, "all");
    late.remove();
    hvd::shutdown();
    report("end");
  };
  Job job(3, body);
  expect_end(job);
  const auto events = read_trace(path);
  for (int rank = 0; rank < 3; ++rank) {
    const Json early = find_event(events, "allreduce early", rank);
    const Json late = find_event(events, "allreduce late", rank);
    const Json all = find_event(events, "allreduce all", rank);
    ASSERT_EQ(early.is_null(), rank == 2) << rank;
    ASSERT_EQ(late.is_null(), rank == 0) << rank;
    ASSERT_FALSE(all.is_null()) << rank;
    EXPECT_FALSE(all["args"].contains("process set"));
    if (rank != 2) {
      EXPECT_EQ(early["args"]["process set"], 1);
    }
    if (rank != 0) {
      EXPECT_EQ(late["args"]["process set"], 2);
    }
    EXPECT_TRUE(rank != 1 || early["tid"] != late["tid"]);
    EXPECT_EQ(events_of(events, "negotiation", rank).size(), rank == 1 ? 3u : 2u);
  }
}

TEST(TimelineAbi, TheProgramStartsAndStopsIt) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  const auto body = [path](int rank, const Report& report) {
    hvd::init();
    train();
    hvd::start_timeline(rank == 0 ? path : "");
    train();
    hvd::stop_timeline();
    train();
    hvd::shutdown();
    report("end");
  };
  Job job(2, body, {{"HVD_TIMELINE", "DYNAMIC"}});
  expect_end(job);
  const auto events = read_trace(path);
  for (int rank = 0; rank < 2; ++rank) expect_training(events, rank);
}

TEST(TimelineAbi, AProgramInCCanRecordSpans) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  Job job(1, [path](int, const Report& report) {
    hvd::init();
    report(std::to_string(use_the_timeline_from_c(path.c_str())));
    hvd::shutdown();
  });
  EXPECT_EQ(job.rank(0).line().value_or("nothing"), "0");
  EXPECT_FALSE(find_event(read_trace(path), "from C").is_null());
}

TEST(TimelineAbi, InvalidCallsReturnErrors) {
  Job job(1, [](int, const Report& report) {
    report(text_of(hvd_start_timeline("t")));
    report(text_of(hvd_timeline_begin("x")));
    { const hvd::Span nothing("outside"); }
    hvd::init();
    report(text_of(hvd_stop_timeline()));
    report(text_of(hvd_start_timeline(nullptr)));
    report(text_of(hvd_timeline_begin(nullptr)));
    report(text_of(hvd_timeline_end()));
    report(text_of(hvd_timeline_end()));
    hvd::shutdown();
  });
  const auto next = [&] { return job.rank(0).line().value_or("nothing"); };
  EXPECT_EQ(next(), "hvd_start_timeline: called before hvd_init or after hvd_shutdown");
  EXPECT_EQ(next(), "hvd_timeline_begin: called before hvd_init or after hvd_shutdown");
  EXPECT_EQ(next(), "the timeline does not run");
  EXPECT_EQ(next(), "the timeline's path is empty");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(), "ok");
}

TEST(TimelineAbi, APathThatCannotBeWrittenFailsInit) {
  Job job(2, [](int, const Report& report) { report(text_of(hvd_init())); },
          {{"HVD_TIMELINE", "/no/such/folder/t"}});
  EXPECT_EQ(job.rank(0).line().value_or("nothing"),
            "hvd_init: cannot create a file for /no/such/folder/t: No such file or directory");
  EXPECT_EQ(
      job.rank(1).line().value_or("nothing"),
      "hvd_init: rank 0: cannot create a file for /no/such/folder/t: No such file or directory");
}

TEST(TimelineAbi, AfterADeathEachSurvivorWritesItsOwnFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  const auto body = [folder = folder.path().string()](int rank, const Report& report) {
    const std::string errors = folder + "/stderr." + std::to_string(rank);
    if (std::freopen(errors.c_str(), "w", stderr) == nullptr) report("no stderr");
    std::setvbuf(stderr, nullptr, _IONBF, 0);
    hvd::init();
    train();
    report("trained");
    if (rank == 1) ::pause();
    report(hvd_barrier(nullptr) == HVD_ERROR_PEER ? "peer lost" : "the barrier succeeded");
    hvd::shutdown();
    report("end");
  };
  Job job(3, body, {{"HVD_TIMELINE", path}});
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "trained");
  job.rank(1).kill();
  for (const int rank : {0, 2}) {
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "peer lost");
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "end");
    const std::string own = own_path(path, rank);
    const auto events = read_trace(own);
    expect_training(events, rank);
    const bool has_failure = std::any_of(events.begin(), events.end(), [](const Json& event) {
      return event["name"] == "barrier" && event["args"].contains("failed");
    });
    EXPECT_TRUE(has_failure) << rank;
    const std::string errors = content_of(folder.file("stderr.") + std::to_string(rank));
    EXPECT_NE(errors.find("hvd: the timeline of rank " + std::to_string(rank) + " is in " + own),
              std::string::npos)
        << errors;
  }
}

// A viewer can open each rank's file, while the job runs and after kill -9.
TEST(TimelineAbi, IsWrittenWhileTheJobRuns) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  const auto body = [](int, const Report& report) {
    hvd::init();
    train();
    report("trained");
    ::pause();
  };
  Job job(2, body, {{"HVD_TIMELINE", path}});
  for (int rank = 0; rank < 2; ++rank)
    EXPECT_EQ(job.rank(rank).line().value_or("nothing"), "trained");
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<Json> events;  // until all of it is there
    while (!has_step_3(events)) events = events_of_journal(own_path(path, rank));
    EXPECT_EQ(events_of(events, "negotiation", rank).size(), 3u) << rank;
    EXPECT_EQ(events_of(events, "program", rank).size(), 3u) << rank;
    EXPECT_FALSE(find_event(events, "process_name", rank).is_null()) << rank;
    job.rank(rank).kill();
    EXPECT_EQ(events_of_journal(own_path(path, rank)), events) << rank;
  }
}

// A limit on file sizes simulates a full disk. The written part stays a timeline, and the program
// continues.
TEST(TimelineAbi, AFullDiskEndsOnlyTheJournal) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  constexpr rlim_t kRoom = 10'000;
  Job job(1, [&](int, const Report& report) {
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur =
        kRoom;  // past it write(2) fails with EFBIG if SIGXFSZ is blocked; setrlimit(2)
    hvd::init();
    hvd::start_timeline(path);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    for (std::uint64_t step = 1; step <= 1'000; ++step) hvd::set_step(step);
    while (std::filesystem::file_size(path) < kRoom / 2) ::sched_yield();
    report("continued");
    ::pause();
  });
  EXPECT_EQ(job.rank(0).line().value_or("nothing"), "continued");
  job.rank(0).kill();
  EXPECT_FALSE(find_event(events_of_journal(path), "step 1").is_null());
}

// A rank that exits does not wait for the others, which may not end.
TEST(TimelineAbi, AProgramThatExitsWithoutShutdownWritesItsOwnFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("t.json");
  const auto body = [](int, const Report& report) {
    hvd::init();
    train();
    report("end");
    std::exit(0);
  };
  Job job(2, body, {{"HVD_TIMELINE", path}});
  expect_end(job);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(job.rank(rank).wait(), 0);
    expect_training(read_trace(own_path(path, rank)), rank);
  }
}

}  // namespace
}  // namespace libhvd::test
