#include "look/look_parse.hpp"

#include "look/look_json.hpp"
#include "look/programs_of.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(LookParse, ReadsWhatLookJsonWrites) {
  ProcessLook look;
  look.pid = 12;
  look.asked = 10;
  look.name = "python3";
  look.state = 'S';
  look.program = "/usr/bin/python3";
  look.traced_by = 7;
  look.tracer = "gdb";
  look.throttled = 0.5;
  look.children.push_back({13, "worker", 'Z'});
  look.problems = {"no native stacks"};
  ThreadLook thread;
  thread.tid = 12;
  thread.state = 'D';
  thread.system_call = "read";
  thread.waits_for = "fd 5: /data (nfs)";
  thread.waiting_seconds = 3.5;
  thread.holds_gil = true;
  thread.stack = {{"read", "", 0, "/lib/libc.so.6", false, false},
                  {"load", "/a.py", 3, "", true, false}};
  thread.movement = Movement{0.3, 0.1, 2, true, 1, 0.05};
  look.threads.push_back(thread);
  const auto parsed = parse_look(look_json(look));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(look_json(*parsed), look_json(look));
  EXPECT_EQ(parsed->asked, 10);
  EXPECT_EQ(parsed->threads[0].stack, look.threads[0].stack);
}

TEST(LookParse, RefusesOtherText) {
  for (const auto* text : {"", "{", "[]", "{}", R"({"pid": "x"})", R"({"pid": 1, "children": 3})"})
    EXPECT_FALSE(parse_look(text)) << text;
}

TEST(ProgramsOf, ProgramsThatOnlyStartOthersAreKnown) {
  EXPECT_TRUE(starts_others("bash", {"bash", "run.sh"}));
  EXPECT_TRUE(
      starts_others("python3", {"python3", "-u", "-m", "torch.distributed.run", "train.py"}));
  EXPECT_TRUE(starts_others("python3", {"/usr/bin/python3", "/usr/bin/torchrun", "train.py"}));
  EXPECT_TRUE(starts_others("gdb", {"gdb", "--args", "./train"}));
  EXPECT_FALSE(starts_others("python3", {"python3", "train.py"}));
  EXPECT_FALSE(starts_others("python3", {"python3", "-c", "torchrun"}));
  EXPECT_FALSE(starts_others("train", {"./train"}));
}

}  // namespace
}  // namespace hvdrun
