#include "hang/rank_place.hpp"

#include "hang/looks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using ::testing::HasSubstr;

TEST(RankPlace, AWaitHasItsLineItsReasonAndItsTime) {
  const auto place = place_of(in_loader());
  EXPECT_EQ(place.doing, Doing::waits);
  EXPECT_EQ(place.where, "loader.py:214 Loader.read()");
  EXPECT_EQ(place.state, "waiting for fd 5: /data/shard-7 (nfs) for 12 s");
  EXPECT_FALSE(place.moves);
}

TEST(RankPlace, AThreadInStateDWaitsForAFileSystemOrHangsInTheKernel) {
  auto look = in_loader();
  look.threads[0].state = 'D';
  EXPECT_THAT(place_of(look).state, HasSubstr("hanging in the kernel, for fd 5"));
  look.threads[0].waits_for = "the file system (nfs) of fd 5: /data/shard-7";
  EXPECT_EQ(place_of(look).state,
            "waiting for the file system (nfs) of fd 5: /data/shard-7 for 12 s");
}

TEST(RankPlace, AFunctionHasNoArgumentsAndNoAnonymousNamespace) {
  LookFrame frame;
  frame.function = "net::(anonymous namespace)::read_all(int, std::string (*)(int))";
  EXPECT_EQ(place_text(frame), "net::read_all()");
}

TEST(RankPlace, ACollectiveHasTheLineThatCalledIt) {
  const auto place = place_of(in_torch("all_reduce", 88));
  EXPECT_EQ(place.doing, Doing::in_collective);
  EXPECT_EQ(place.collective, "all_reduce");
  EXPECT_EQ(place.called_from, "train.py:88");
}

TEST(RankPlace, AThreadThatUsesAProcessorComputes) {
  const auto place = place_of(computing({python_frame("spin", "/home/u/train.py", 3)}));
  EXPECT_EQ(place.doing, Doing::computes);
  EXPECT_EQ(place.state, "using 97 % of a processor");
  EXPECT_TRUE(place.moves);
}

// It is seen on a processor, after `queued` seconds of 0.3 in which it waited for one.
ProcessLook seen_while_it_polls(double queued) {
  auto look = computing({native_frame("clock_nanosleep"), native_frame("usleep")});
  look.threads[0].movement = Movement{0.3, 0.01, 60, false, 60, queued};
  return look;
}

TEST(RankPlace, AThreadThatPollsDoesNotCompute) {
  const auto place = place_of(seen_while_it_polls(0.02));
  EXPECT_EQ(place.doing, Doing::waits);
  EXPECT_EQ(place.state, "polling, using 3 % of a processor");
}

TEST(RankPlace, AThreadThatGetsLittleOfABusyProcessorComputes) {
  EXPECT_EQ(place_of(seen_while_it_polls(0.28)).doing, Doing::computes);
}

ProcessLook waiting_in_jax() {
  auto look = sleeping({native_frame("absl::Notification::WaitForNotification"),
                        native_frame("jax::PyArray::BlockUntilReady"),
                        python_frame("<module>", "/home/u/train.py", 88)},
                       "futex", "another thread");
  for (std::size_t at = 0; at < 2; ++at)
    look.threads[0].stack[at].library = "/venv/site-packages/libjax.so";
  ThreadLook pool = look.threads[0];
  pool.tid = 101;
  pool.waits_for.clear();
  pool.stack = {native_frame("gloo::allreduce(gloo::AllreduceOptions const&)"),
                native_frame("xla::cpu::AllReduceThunk::Execute")};
  for (auto& frame : pool.stack) frame.library = "/venv/site-packages/libjax.so";
  look.threads.push_back(pool);
  return look;
}

TEST(RankPlace, ACollectiveOnAThreadOfTheSameLibraryIsThatOfTheThreadThatWaits) {
  auto look = waiting_in_jax();
  EXPECT_EQ(place_of(look).doing, Doing::in_collective);
  EXPECT_EQ(place_of(look).collective, "gloo::allreduce");
  EXPECT_EQ(place_of(look).called_from, "train.py:88");
  for (auto& frame : look.threads[1].stack) frame.library = "/venv/site-packages/libtorch_cpu.so";
  EXPECT_EQ(place_of(look).doing, Doing::waits) << "of another library";
}

TEST(RankPlace, AFunctionOfTensorFlowInWhichNothingHappensWaitsForOthers) {
  auto look = sleeping(
      {native_frame("absl::Notification::WaitForNotification"),
       python_frame("quick_execute", "/venv/site-packages/tensorflow/python/eager/execute.py", 53),
       python_frame("meet", "/home/u/train.py", 10)},
      "futex", "another thread");
  EXPECT_EQ(place_of(look).collective, "a tf.function");
  EXPECT_EQ(place_of(look).called_from, "train.py:10");
  ThreadLook reader = look.threads[0];
  reader.tid = 101;
  reader.stack = {native_frame("pread64")};
  reader.waits_for = "fd 5: /data/shard-7 (nfs)";
  look.threads.push_back(reader);
  EXPECT_EQ(place_of(look).doing, Doing::waits) << "it reads";
}

TEST(RankPlace, AStoppedProcessIsStoppedAlsoInACollective) {
  auto look = in_torch("all_reduce", 88);
  look.state = 'T';
  EXPECT_EQ(place_of(look).doing, Doing::stopped);
  look.state = 't';
  look.traced_by = 7;
  look.tracer = "gdb";
  EXPECT_THAT(place_of(look).state, HasSubstr("debugger (gdb, pid 7)"));
  look = in_loader();
  look.frozen = true;
  EXPECT_EQ(place_of(look).doing, Doing::frozen);
}

TEST(RankPlace, TheHolderOfAMutexIsNamedWithItsPlace) {
  auto look =
      sleeping({native_frame("pthread_mutex_lock"), python_frame("flush", "/home/u/log.py", 7)},
               "futex", "a mutex that thread 101 holds");
  ThreadLook holder = look.threads[0];
  holder.tid = 101;
  holder.waits_for.clear();
  holder.stack = {python_frame("write", "/home/u/log.py", 31)};
  look.threads.push_back(holder);
  EXPECT_EQ(place_of(look).state,
            "waiting for a mutex that thread 101 holds, which is in log.py:31 write() for 12 s");
}

TEST(RankPlace, WhatKeepsAProcessFromItsWorkIsNoted) {
  auto look = sleeping({python_frame("Queue.get", "/usr/lib/python3.11/queue.py", 1),
                        python_frame("main", "/home/u/a.py", 2)},
                       "read", "fd 4: pipe");
  look.children.push_back({55, "python3", 'Z'});
  EXPECT_EQ(place_of(look).note, "its child 55 (python3) has ended");
  look = computing({python_frame("main", "/home/u/a.py", 2)});
  look.throttled = 0.8;
  look.swapped_kib = 4096;
  look.swapped_in_per_second = 900;
  EXPECT_EQ(
      place_of(look).note,
      "its control group was throttled 80 % of the time; it reads 900 pages a second from swap");
}

TEST(RankPlace, AThreadThatMainWaitsForIsTheOneThatMatters) {
  auto look = sleeping({native_frame("pthread_join"), native_frame("main", "/home/u/solver")});
  look.program = "/home/u/solver";
  ThreadLook worker = look.threads[0];
  worker.tid = 101;
  worker.stack = {native_frame("read"), native_frame("load(int)", "/home/u/solver")};
  look.threads.push_back(worker);
  EXPECT_EQ(place_of(look).where, "load()");
}

// A rank whose main thread takes from a queue, and whose other threads read from these lines.
ProcessLook waits_for_threads(const std::vector<int>& lines) {
  auto look = sleeping({native_frame("sem_wait"),
                        python_frame("Queue.get", "/usr/lib/python3.11/queue.py", 1),
                        python_frame("main", "/home/u/a.py", 2)});
  for (const int line : lines) {
    auto reader = in_loader().threads[0];
    reader.tid = 101 + static_cast<pid_t>(look.threads.size());
    reader.stack[1].line = line;
    look.threads.push_back(reader);
  }
  return look;
}

TEST(RankPlace, WhatTheOnlyOtherThreadDoesIsNamed) {
  const std::string waits = "waiting for another thread for 12 s";
  const std::string reads =
      " loader.py:214 Loader.read(), waiting for fd 5: /data/shard-7 (nfs) for 12 s";
  EXPECT_EQ(place_of(waits_for_threads({})).state, waits);
  EXPECT_EQ(place_of(waits_for_threads({214})).state, waits + "; its other thread is in" + reads);
  EXPECT_EQ(place_of(waits_for_threads({214, 214})).state,
            waits + "; its 2 other threads are in" + reads);
  EXPECT_EQ(place_of(waits_for_threads({214, 7})).state, waits) << "it is not clear which one";
}

TEST(RankPlace, TheThreadWhoseEndIsAwaitedIsNamed) {
  auto look = waits_for_threads({214, 7});
  look.threads[0].waits_for = "the end of thread 103";
  EXPECT_EQ(place_of(look).state,
            "waiting for the end of thread 103 for 12 s, which is in loader.py:7 Loader.read(), "
            "waiting for fd 5: /data/shard-7 (nfs) for 12 s");
  look.threads[0].stack[0] = native_frame("pthread_join");
  EXPECT_EQ(place_of(look).where, "loader.py:7 Loader.read()");
}

TEST(RankPlace, NothingIsKnownOfAProcessWithoutThreads) {
  EXPECT_EQ(place_of(ProcessLook()).doing, Doing::unknown);
}

}  // namespace
}  // namespace hvdrun
