#include "slurm/step_signal.hpp"

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

TEST(StepSignal, IsReadFromTheScriptsOptions) {
  EXPECT_EQ(signal_option_of("#!/bin/bash\n#SBATCH --signal=USR1@90\nhvdrun true\n"), "USR1@90");
  EXPECT_EQ(signal_option_of("#!/bin/bash\n#SBATCH -N2 --signal USR2 # a comment"), "USR2");
  EXPECT_EQ(signal_option_of("#SBATCH --signal=USR1\n# words\n#SBATCH --signal=\"R:10@5\""),
            "R:10@5");
  EXPECT_EQ(signal_option_of("#!/bin/bash\n#SBATCH --signal=B:USR1@90\n"), "B:USR1@90");
}

TEST(StepSignal, IsEmptyIfTheScriptHasNone) {
  EXPECT_EQ(signal_option_of(""), "");
  EXPECT_EQ(signal_option_of("#SBATCH --signals=USR1\n##SBATCH --signal=USR1\n"), "");
  EXPECT_EQ(signal_option_of("#!/bin/sh\necho\n#SBATCH --signal=USR1\n"), "");
}

TEST(StepSignal, IsReadFromTheEnvironment) {
  EXPECT_EQ(find_signal_option({{"SBATCH_SIGNAL", "USR1@90"}}), "USR1@90");
}

}  // namespace
}  // namespace hvdrun
