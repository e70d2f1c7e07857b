#include "report/advice.hpp"

#include <csignal>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun {
namespace {

class Advice : public testing::Test {
 protected:
  Advice() {
    report_.ranks.resize(4);
    for (int rank = 0; rank < 4; ++rank)
      report_.ranks[static_cast<std::size_t>(rank)].placement.rank = rank;
    report_.first_failure = 2;
    spec_.command = {"python", "my train.py"};
  }

  // Returns the advice for a job whose first failure printed these lines last.
  std::string after(const std::vector<std::string>& lines) {
    report_.ranks[2].last_stderr = lines;
    const auto found = advice(report_, spec_);
    EXPECT_LE(found.size(), 1u);
    return found.empty() ? "" : found.front();
  }

  Report report_;
  JobSpec spec_;
};

TEST_F(Advice, NamesTheRankThatNeedsATerminal) {
  EXPECT_EQ(
      after({"    if self.quitting: raise BdbQuit", "bdb.BdbQuit"}),
      "breakpoint() needs a terminal, and rank 2 had none; in a terminal: hvdrun --tty 2 -np 4 "
      "python 'my train.py'");
  EXPECT_EQ(after({"EOFError: EOF when reading a line"}),
            "input() needs a terminal, and rank 2 had none; in a terminal: hvdrun --tty 2 -np 4 "
            "python 'my train.py'");
  report_.ranks[2].has_terminal = true;
  EXPECT_EQ(after({"bdb.BdbQuit"}), "") << "the user has quit the debugger";
}

TEST_F(Advice, HasTheWholeLineAsItWasTypedForAShell) {
  spec_.typed = {"hvdrun", "run", "-np", "4", "-x", "A=it's", "--label", "{rank} "};
  spec_.command = {"python", "-c", "breakpoint(); print(\"$x\")"};
  EXPECT_EQ(after({"bdb.BdbQuit"}),
            "breakpoint() needs a terminal, and rank 2 had none; in a terminal: hvdrun run --tty 2 "
            "-np 4 -x 'A=it'\\''s' --label '{rank} ' python -c 'breakpoint(); print(\"$x\")'");
}

TEST_F(Advice, SaysThatHvdrunChoosesAFreePort) {
  const std::string failure =
      "RuntimeError: The server socket has failed to listen … (port: 29500, errno: 98 - Address "
      "already in use).";
  EXPECT_EQ(
      after({failure}),
      "rank 2 needs a port that another process has; hvdrun gives each job free ports, the one "
      "in MASTER_PORT and the 64 after it: let the program use them");
  spec_.environment = {{"A", "1"}, {"MASTER_PORT", "29500"}};
  spec_.typed = {"hvdrun", "-np", "4", "-x", "MASTER_PORT=29500", "-x", "A=1"};
  EXPECT_EQ(
      after({failure}),
      "another process has the port of -x MASTER_PORT=29500; hvdrun chooses a free one: hvdrun "
      "-np 4 -x A=1 python 'my train.py'");
}

TEST_F(Advice, LeavesAloneAPortThatIsNotTheOneInUse) {
  const std::string failure = "bind: Address already in use: 29500";
  spec_.environment = {{"MASTER_PORT_X", "29500"}, {"MASTER_PORT", "29500"}};
  spec_.typed = {"hvdrun", "-x", "MASTER_PORT_X=29500", "-xMASTER_PORT=29500", "-np", "4"};
  EXPECT_EQ(
      after({failure}),
      "another process has the port of -x MASTER_PORT=29500; hvdrun chooses a free one: hvdrun "
      "-x MASTER_PORT_X=29500 -np 4 python 'my train.py'");
  EXPECT_EQ(after({"bind: Address already in use: 8080"}), "");
  spec_.typed = {"hvdrun", "-x", "MASTER_PORT_X=29500"};
  EXPECT_EQ(after({failure}), "") << "a config file has it, or a variable";
}

TEST_F(Advice, NamesTheVariableForAPyTorchWithoutLibuv) {
  EXPECT_EQ(after({"RuntimeError: use_libuv was requested but PyTorch was build without libuv "
                   "support"}),
            "this PyTorch was built without libuv, and needs a variable for that: hvdrun -x "
            "USE_LIBUV=0 -np 4 python 'my train.py'");
}

TEST_F(Advice, LeavesOutWhatIsTooLongToBePasted) {
  spec_.command = {"python", std::string(5000, 'x')};
  EXPECT_EQ(
      after({"bdb.BdbQuit"}),
      "breakpoint() needs a terminal, and rank 2 had none; in a terminal: hvdrun --tty 2 -np 4 "
      "…");
  EXPECT_EQ(after({"unsupported PMI version PMIx"}),
            "the program is built with MPICH, whose ranks hvdrun cannot bring together: mpiexec -n "
            "4 …, with the mpiexec of MPICH (Debian's mpiexec.mpich)");
}

TEST_F(Advice, NamesTheMpiexecForAProgramOfMpich) {
  EXPECT_EQ(after({"check_MPIR_CVAR_PMI_VERSION(167):  Runtime environment uses unsupported PMI "
                   "version PMIx. Aborting."}),
            "the program is built with MPICH, whose ranks hvdrun cannot bring together: mpiexec -n "
            "4 python 'my train.py', with the mpiexec of MPICH (Debian's mpiexec.mpich)");
}

class ModuleAdvice : public Advice {
 protected:
  std::string missing(const std::string& module) {
    return after({"ModuleNotFoundError: No module named '" + module + "'", "at exit"});
  }
};

TEST_F(ModuleAdvice, NamesTheCommandIfHorovodOrHvdIsMissing) {
  spec_.hvd_folder = "/opt/share/hvd/python";
  EXPECT_TRUE(advice(report_, spec_).empty());
  EXPECT_EQ(missing("horovod"),
            "the module horovod is missing; hvdrun brings one, on hvd: hvdrun --horovod -np 4 "
            "python 'my train.py'");
  EXPECT_EQ(missing("hvd"),
            "the package hvd is in /opt/share/hvd/python: PYTHONPATH=/opt/share/hvd/python hvdrun "
            "-np 4 python 'my train.py'");
  EXPECT_EQ(missing("horovod.mxnet"), "");
  EXPECT_EQ(missing("hvdx"), "");
  spec_.hvd_folder.clear();
  EXPECT_EQ(missing("hvd"),
            "the package hvd is missing in this Python; start the ranks with the Python for which "
            "pip has installed hvdrun");
  spec_.horovod = true;
  spec_.horovod_folder = "/opt/share/hvdrun/horovod";
  EXPECT_EQ(missing("horovod"),
            "this Python has not looked into /opt/share/hvdrun/horovod, which --horovod has put on "
            "its PYTHONPATH: was that changed, or Python started with -E or -I?");
  report_.first_failure.reset();
  EXPECT_EQ(missing("horovod"), "");
}

class FrameworkAdvice : public Advice {};

TEST_F(FrameworkAdvice, NamesTheOptionForAFrameworkThatFoundNoRanks) {
  const std::string command = "-np 4 python 'my train.py'";
  EXPECT_EQ(
      after({"  File \"distributed.py\", line 96, in initialize",
             "ValueError: coordinator_address should be defined."}),
      "JAX found no cluster; --for jax describes this one to it: hvdrun --for jax " + command);
  EXPECT_EQ(after({"KeyError: 'TF_CONFIG'"}),
            "--for tensorflow sets TF_CONFIG: hvdrun --for tensorflow " + command);
  EXPECT_EQ(after({"RuntimeError: SLURM_PROCID not found in environment. Not running inside a "
                   "SLURM step?"}),
            "SlurmClusterResolver works in SLURM jobs only; --for tensorflow sets TF_CONFIG, which "
            "MultiWorkerMirroredStrategy reads without a resolver: hvdrun --for tensorflow " +
                command);
  EXPECT_EQ(after({"RuntimeError: [distributed] Couldn't initialize any backend"}),
            "MLX found no other ranks; --for mlx lists them for it: hvdrun --for mlx " + command);
  EXPECT_EQ(after({"KeyError: 'TORCHELASTIC_RUN_ID'"}),
            "--for torchrun sets torchrun's other variables: hvdrun --for torchrun " + command);
  EXPECT_EQ(
      after({"KeyError: 'ACCELERATE_MIXED_PRECISION'"}),
      "--for accelerate sets what accelerate launch sets: hvdrun --for accelerate " + command);
  EXPECT_EQ(after({"KeyError: 'HOME'"}), "");
  spec_.horovod = true;
  spec_.typed = {"hvdrun", "--horovod", "-np", "4"};
  EXPECT_EQ(after({"KeyError: 'TF_CONFIG'"}),
            "--for tensorflow sets TF_CONFIG: hvdrun --for tensorflow --horovod " + command);
  spec_.frameworks = {Framework::tensorflow};
  EXPECT_EQ(after({"KeyError: 'TF_CONFIG'"}), "") << "--for tensorflow was given";
}

TEST_F(Advice, SaysWhereASignalCameFromThatTheProgramDoesNotHandle) {
  report_.ranks[2].signal = SIGUSR1;
  EXPECT_EQ(
      after({}),
      "SIGUSR1 ends a program that does not handle it; hvdrun passes on to the ranks each one "
      "that it gets, as from SLURM before the time limit (--signal)");
  spec_.max_requeues = 3;
  EXPECT_EQ(after({}),
            "SIGUSR1 is SLURM's warning before the time limit, which --requeue asks for, and the "
            "program does not handle it: let it save and stop with "
            "hvd.watch_signal(signal.SIGUSR1) and hvd.agree_stop, or leave --requeue out");
  report_.ranks[2].signal = SIGSEGV;
  EXPECT_EQ(after({}), "");
}

class ExitAdvice : public Advice {};

TEST_F(ExitAdvice, SaysThatAPythonProgramMayHaveFinishedBeforeItAborted) {
  const std::string aborted = "terminate called without an active exception";
  report_.ranks[2].signal = SIGABRT;
  EXPECT_EQ(after({"epoch 3", aborted}),
            "rank 2 may have finished its work: programs of PyTorch can abort like this at their "
            "exit if they do not call torch.distributed.destroy_process_group()");
  EXPECT_EQ(after({"terminate called after throwing an instance of 'std::bad_alloc'"}), "");
  EXPECT_EQ(after({"Traceback (most recent call last):", "ValueError: no", aborted}), "")
      << "the exception is the failure";
  spec_.command = {"./a.out"};
  EXPECT_EQ(after({aborted}), "") << "not a program of PyTorch";
  spec_.command = {"env", "A=1", "/opt/venv/bin/python3.11", "train"};
  EXPECT_NE(after({aborted}), "");
  report_.ranks[2].signal = SIGSEGV;
  EXPECT_EQ(after({aborted}), "");
}

}  // namespace
}  // namespace hvdrun
