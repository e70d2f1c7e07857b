#include "cli/nested_launcher.hpp"

#include "command_line_fixture.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class NestedLauncher : public test::CommandLineTest {
 protected:
  NestedLauncher() {
    for (const auto* name : {"train", "unknown", "head", "bash", "sh", "uv", "env"})
      folder_.write_program(std::string("bin/") + name);
    folder_.write("t.py", "");
  }

  // Returns the error for `hvdrun -np 2 LINE`; "" if it is accepted.
  std::string refusal(const std::string& line) {
    std::vector<std::string> words{"-np", "2"};
    for (auto& word : split(line)) words.push_back(word);
    auto invocation = parse(words);
    if (invocation) notes_ = invocation->notes;
    return invocation || invocation.error().exit_code != kExitUsage ? ""
                                                                    : invocation.error().message;
  }

  static std::vector<std::string> split(const std::string& line) {
    std::vector<std::string> words;
    std::string word;
    bool quoted = false;
    for (const char c : line + " ") {
      if (c == '\'') quoted = !quoted;
      if (c == '\'' || (c == ' ' && !quoted)) {
        if (c == ' ' && !word.empty()) words.push_back(std::exchange(word, {}));
      } else {
        word += c;
      }
    }
    return words;
  }

  std::vector<std::string> notes_;
};

TEST_F(NestedLauncher, IsRefusedWhoeverMadeIt) {
  for (const auto* line :
       {"composer -n 2 t.py",
        "colossalai run --nproc_per_node 2 t.py",
        "torchpack dist-run -np 2 python3 t.py",
        "ft_launcher --nproc_per_node 2 t.py",
        "dlrover-run --nproc_per_node 2 t.py",
        "lightning run model t.py",
        "fabric run t.py",
        "flux run -n 2 ./train",
        "flux submit -n 2 ./train",
        "prterun -n 2 ./train",
        "prun -n 2 ./train",
        "jsrun -n 2 ./train",
        "aprun -n 2 ./train",
        "ibrun ./train",
        "mpiexec.hydra -n 2 ./train",
        "mpirun_rsh -np 2 ./train",
        "pbsdsh ./train",
        "blaunch n1 ./train",
        "ray start --head",
        "dask worker",
        "bsub ./train",
        "qsub job.sh",
        "sbatch job.sh",
        "python3 -m paddle.distributed.launch t.py",
        "python3 /opt/lib/python3.12/site-packages/torch/distributed/run.py t.py"})
    EXPECT_THAT(refusal(line), HasSubstr(", and hvdrun would start it once in each slot")) << line;
}

TEST_F(NestedLauncher, IsRefusedAfterAnyWrapper) {
  const std::string inner = "torchrun --nproc_per_node 2 t.py";
  for (const auto* wrapper : {"uv run",
                              "uv run --with numpy",
                              "conda run -n x",
                              "poetry run",
                              "pixi run",
                              "env A=1",
                              "env -u A B=1",
                              "nice -n 5",
                              "stdbuf -oL",
                              "time",
                              "timeout -k 5 60",
                              "numactl -N 0 -m 0",
                              "taskset -c 0-3",
                              "apptainer exec --nv -B /data x.sif",
                              "singularity run x.sif",
                              "podman run --rm -it -v /a:/b image",
                              "strace -f -o out",
                              "gdb --args",
                              "nsys profile --stats true -o out",
                              "ncu --set full",
                              "xvfb-run",
                              "sudo -u me",
                              "env A=1 nice uv run",
                              "python3",
                              "python3 -X dev",
                              "ssh n1"})
    EXPECT_THAT(refusal(wrapper + (" " + inner)), HasSubstr("torchrun starts ranks itself"))
        << wrapper;
  for (const auto* line : {"bash -c 'cd sub && torchrun t.py'", "bash -lc 'exec torchrun t.py'",
                           "sh -e -c 'A=1 torchrun t.py'", "script -c 'torchrun t.py' log",
                           "uv run -m torch.distributed.run t.py",
                           "python3 -m cProfile -o out -m torch.distributed.run t.py"})
    EXPECT_THAT(refusal(line), HasSubstr("torchrun starts ranks itself")) << line;
}

TEST_F(NestedLauncher, IsFoundInAShellScript) {
  folder_.write("run.sh", "#!/bin/bash\nset -e\nmodule load x\ntorchrun --nproc_per_node 2 t.py\n");
  EXPECT_THAT(refusal("sh run.sh"), StartsWith("run.sh runs torchrun: torchrun starts ranks"));
  EXPECT_THAT(refusal("bash -x run.sh 1"), HasSubstr("type hvdrun -np 2 python3 t.py, or"));
  EXPECT_THAT(refusal("./run.sh"), StartsWith("./run.sh runs torchrun: "));
  folder_.write("bind.sh", "#!/bin/sh\nexport A=1\nexec numactl -N $LOCAL_RANK \"$@\"\n");
  EXPECT_THAT(refusal("./bind.sh mpirun -n 2 ./train"), HasSubstr("mpirun starts ranks itself"));
  EXPECT_EQ(refusal("./bind.sh ./train"), "");
  folder_.write("two.sh", "if [ -n \"$A\" ]; then torchrun t.py; else python3 t.py; fi\n");
  EXPECT_EQ(refusal("bash two.sh"), "");
  EXPECT_THAT(notes_, testing::Contains(HasSubstr("two.sh may run torchrun, which starts ranks")));
  folder_.write("rank.sh", "[ $HVD_RANK = 0 ] || exit\nif a; then srun ./train; fi\n");
  EXPECT_EQ(refusal("bash rank.sh"), "");
  EXPECT_THAT(notes_, Not(testing::Contains(HasSubstr("may run"))));
}

TEST_F(NestedLauncher, OfAnUnknownNameIsTakenForOneByItsNumberOfProcesses) {
  EXPECT_THAT(refusal("unknown -n 2 train"),
              StartsWith("unknown seems to be a launcher, which starts ranks itself, and"));
  EXPECT_THAT(refusal("unknown run -n 2 train"), HasSubstr("type hvdrun -np 2 train, or"));
  EXPECT_THAT(refusal("unknown --nproc_per_node=2 t.py"), EndsWith("starts it as it is"));
  EXPECT_THAT(refusal("unknown --ntasks 4 --x y train"), HasSubstr("seems to be a launcher"));
}

TEST_F(NestedLauncher, IsNotSeenInWhatOnlyLooksLikeOne) {
  for (const auto* line :
       {"head -n 2 train", "unknown -n 2", "unknown -n two train", "unknown -np 2 file",
        "./bin/unknown -n 2 train", "train torchrun", "python3 t.py --launcher torchrun",
        "python3 t.py torchrun", "env A=torchrun train", "bash -c 'echo torchrun'",
        "bash -c 'which mpirun'", "train -m torch.distributed.run", "uv run train torchrun",
        "bash -c 'hvdrun jobs; train'", "sh torchrun.sh", "torchrun.sh", "accelerate config"})
    EXPECT_EQ(refusal(line), "") << line;
}

TEST_F(NestedLauncher, IsAnsweredWithTheUsersOwnOptionsAndWrapper) {
  EXPECT_THAT(error({"-np", "4", "-x", "A=it's", "uv", "run", "torchrun", "--nproc_per_node", "2",
                     "t.py", "$5"})
                  .message,
              HasSubstr(": type hvdrun -x 'A=it'\\''s' -np 2 uv run python3 t.py '$5', or torchrun "
                        "without hvdrun"));
  EXPECT_THAT(error({"-np", "4", "jsrun", "-n", "8", "-a", "1", "-c", "2", "./a"}).message,
              HasSubstr(": type hvdrun -np 8 --cpus-per-rank 2 ./a, or jsrun without hvdrun; the "
                        "line leaves out -a"));
  EXPECT_THAT(error({"-np", "4", "aprun", "-n", "8", "-N", "4", "-d", "2", "./a"}).message,
              HasSubstr(": type hvdrun -np 8 --ranks-per-host 4 --cpus-per-rank 2 ./a, or"));
  EXPECT_THAT(error({"-np", "4", "ibrun", "./a"}).message,
              HasSubstr(": type hvdrun -np 4 ./a, or ibrun without hvdrun"));
  EXPECT_THAT(error({"-np", "2", "sbatch", "job.sh"}).message,
              StartsWith("sbatch submits a job, and hvdrun would start it once in each slot: type "
                         "sbatch … without hvdrun"));
  EXPECT_THAT(error({"-np", "2", "--wrap", "torchrun --nproc_per_node 2", "t.py"}).message,
              HasSubstr("torchrun starts ranks itself"));
}

TEST_F(NestedLauncher, MayBeOneRankOrOneOnEachHost) {
  EXPECT_EQ(error({"-np", "1", "bash-of-no-path", "-c", "torchrun t.py"}).exit_code, kExitNotFound);
  EXPECT_TRUE(parse({"--ranks-per-host", "1", "bash", "-c", "torchrun t.py"}));
  EXPECT_TRUE(parse({"run", "-np", "2", "bash", "-c", "torchrun t.py"}));
  EXPECT_TRUE(parse({"-np", "2", "bash", "-c", "srun --version"}));
}

TEST_F(NestedLauncher, InAScriptMeansThatTheScriptMayRunOnce) {
  const JobSpec spec;
  const std::vector<cli::ParsedOption> none;
  const cli::TypedJob job{spec, none, environment_, folder_.path(), "salloc"};
  EXPECT_TRUE(cli::is_script_with_launcher({"bash", "-c", "hvdrun ./train"}, job));
  EXPECT_TRUE(cli::is_script_with_launcher({"bash", "-c", "if a; then srun ./train; fi"}, job));
  EXPECT_FALSE(cli::is_script_with_launcher({"bash", "-c", "hvdrun jobs; ./train"}, job));
  EXPECT_FALSE(cli::is_script_with_launcher({"hvdrun", "./train"}, job));
  EXPECT_FALSE(cli::is_script_with_launcher({"./train"}, job));
}

TEST(SeveralRunsWarning, NamesTheOuterHvdrun) {
  JobSpec spec;
  spec.ranks = 2;
  const Environment rank{{"HVD_RANK", "0"},
                         {"HVD_SIZE", "3"},
                         {"OMPI_COMM_WORLD_RANK", "0"},
                         {"OMPI_COMM_WORLD_SIZE", "3"}};
  EXPECT_EQ(cli::several_runs_warning(rank, spec),
            "another hvdrun has started hvdrun 3 times (HVD_SIZE=3), and each starts all ranks: "
            "start hvdrun once, without the outer one");
}

}  // namespace
}  // namespace hvdrun
