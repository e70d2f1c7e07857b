#include "slurm/salloc_line.hpp"

#include <gtest/gtest.h>

namespace hvdrun {

using Kind = SallocLine::Kind;

static bool operator==(const SallocLine& a, const SallocLine& b) {
  return a.kind == b.kind && a.text == b.text;
}

static void PrintTo(const SallocLine& line, std::ostream* out) {
  *out << static_cast<int>(line.kind) << " \"" << line.text << '"';
}

namespace {

// The lines are those of salloc of SLURM 22.05.
TEST(ReadSallocLine, RecognizesTheMessagesOfSalloc) {
  const std::pair<const char*, SallocLine> cases[] = {
      {"salloc: Pending job allocation 12", {Kind::pending, "12"}},
      {"salloc: job 12 queued and waiting for resources", {Kind::routine, ""}},
      {"salloc: job 12 has been allocated resources", {Kind::routine, ""}},
      {"salloc: Granted job allocation 12\n", {Kind::granted, "12"}},
      {"salloc: Waiting for resource configuration", {Kind::routine, ""}},
      {"salloc: Nodes n[1-2] are ready for job", {Kind::routine, ""}},
      {"salloc: Relinquishing job allocation 12", {Kind::given_back, ""}},
      {"salloc: Job allocation 12 has been revoked.",
       {Kind::revoked, "Job allocation 12 has been revoked."}},
      {"salloc: Job 12 has exceeded its time limit and its allocation has been revoked.",
       {Kind::revoked, "Job 12 has exceeded its time limit and its allocation has been revoked."}},
      {"salloc: error: Job submit/allocate failed: Invalid partition name specified",
       {Kind::other, "Job submit/allocate failed: Invalid partition name specified"}},
      {"salloc: fatal: Could not establish a configuration source",
       {Kind::other, "Could not establish a configuration source"}},
      {"salloc: error: Node failure on n2", {Kind::other, "Node failure on n2"}},
      {"a plugin's words", {Kind::other, "a plugin's words"}},
      {"salloc: Pending job allocation x", {Kind::other, "Pending job allocation x"}},
      {"", {Kind::other, ""}},
  };
  for (const auto& [line, read] : cases) EXPECT_EQ(read_salloc_line(line), read) << line;
}

}  // namespace
}  // namespace hvdrun
