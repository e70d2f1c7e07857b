// A look as text and as JSON.
#include "look/look_text.hpp"

#include "look/look_json.hpp"

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using testing::HasSubstr;
using testing::Not;

ProcessLook sample() {
  ProcessLook look;
  look.pid = 9350;
  look.name = "python3";
  look.state = 'S';
  look.command = "python3 train.py";
  look.python = "3.11.2";
  look.pause_seconds = 0.0006;
  look.thread_count = 1;
  ThreadLook thread;
  thread.tid = 9350;
  thread.name = "python3";
  thread.state = 'S';
  thread.system_call = "read";
  thread.waits_for = "fd 5: /data/a (nfs4)";
  thread.waiting_seconds = 312.2;
  LookFrame read{"read", "", 0, "/lib/libc.so.6", false, false};
  LookFrame own{"PyCall", "", 0, "/usr/bin/python3", false, true};
  LookFrame load{"load", "train.py", 8, "", true, false};
  thread.stack = {read, own, load};
  look.threads = {thread};
  return look;
}

TEST(LookText, ShowsAThreadWithItsStack) {
  EXPECT_EQ(
      look_text(sample(), false),
      "pid 9350 (python3): sleeping, Python 3.11.2, 1 thread, was stopped for 0.6 ms\n"
      "  python3 train.py\n"
      "  thread 9350 \"python3\": sleeping in read for 312 s, waits for fd 5: /data/a (nfs4)\n"
      "    read (libc.so.6)\n"
      "    load (train.py:8)\n");
  EXPECT_THAT(look_text(sample(), true), HasSubstr("    PyCall (python3)\n"));
}

TEST(LookText, ShowsEqualThreadsOnce) {
  auto look = sample();
  look.threads.push_back(look.threads[0]);
  look.threads[1].tid = 9351;
  look.threads[1].waiting_seconds = 300;
  const auto text = look_text(look, false);
  EXPECT_THAT(
      text, HasSubstr("  2 threads 9350, 9351 \"python3\": sleeping in read for 300 s to 312 s,"));
  EXPECT_EQ(text.find("load"), text.rfind("load"));
}

TEST(LookText, ShowsNotes) {
  auto look = sample();
  look.traced_by = 77;
  look.tracer = "gdb";
  look.swapped_kib = 4096;
  look.throttled = 0.5;
  look.frozen = true;
  look.problems = {"no\nstacks"};
  look.unfinished = "reading its memory";
  look.threads[0].problem = "it did not stop";
  look.threads[0].movement = Movement{0.5, 0, 0, false};
  const auto text = look_text(look, false);
  EXPECT_THAT(text, HasSubstr("  note: pid 77 (gdb) traces it\n"));
  EXPECT_THAT(text, HasSubstr("  note: 4 MiB of it are swapped out\n"));
  EXPECT_THAT(text, HasSubstr("  note: its control group was throttled 50 % of the time\n"));
  EXPECT_THAT(text, HasSubstr("  note: its control group is frozen\n"));
  EXPECT_THAT(text, HasSubstr("  note: the look did not end: it was reading its memory\n"));
  EXPECT_THAT(text, HasSubstr("    it did not stop\n"));
  EXPECT_THAT(text, HasSubstr("    it has not moved in 0.5 s\n"));
}

TEST(LookText, WritesNoControlCharacters) {
  auto look = sample();
  look.command = "a\x1b[2J";
  look.threads[0].stack[0].function = "f\x07";
  EXPECT_THAT(look_text(look, false), Not(testing::ContainsRegex("[\x01-\x08\x0b-\x1f]")));
}

TEST(LookJson, HasAThreadWithItsStack) {
  const auto json = look_json(sample());
  EXPECT_THAT(json, HasSubstr(R"("pid":9350)"));
  EXPECT_THAT(json,
              HasSubstr(R"({"function":"load","file":"train.py","line":8,"language":"python"})"));
  EXPECT_THAT(json, Not(HasSubstr("\n")));
  EXPECT_THAT(json, Not(HasSubstr("movement")));
}

TEST(LookJson, TakesAnyBytes) {
  auto look = sample();
  look.command = "\xff\xfe";
  EXPECT_THAT(look_json(look), HasSubstr("\"command\":"));
}

}  // namespace
}  // namespace hvdrun
