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
    for (const auto* name :
         {"train", "unknown", "head", "bash", "sh", "uv", "env", "python3", "python", "conda",
          "git", "torchrun.sh", "accelerate", "apptainer", "guix", "timeout", "dask", "strace"})
      folder_.write_program(std::string("bin/") + name);
    folder_.write("t.py", "");
  }

  // Returns the error for `hvdrun -np 2 LINE`; "" if it is accepted. Keeps its notes.
  std::string refusal(const std::string& line) {
    std::vector<std::string> words{"-np", "2"};
    for (auto& word : split(line)) words.push_back(word);
    auto invocation = parse(words);
    notes_ = invocation ? invocation->notes : std::vector<std::string>();
    return invocation ? "" : invocation.error().message;
  }

  // Returns the notes for `hvdrun -np 2 LINE`, which is not refused.
  std::string notes(const std::string& line) {
    EXPECT_EQ(refusal(line), "") << line;
    std::string all;
    for (const auto& note : notes_) all += note + "\n";
    return all;
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
        "dask ssh n1",
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
                              "uv run --frozen --no-sync",
                              "uv run --unknown --",
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
                              "apptainer exec --nv x.sif",
                              "bwrap --ro-bind / / --",
                              "guix shell python --",
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
                           "sh -e -c 'A=1 torchrun t.py'", "bash -euo pipefail -c 'torchrun t.py'",
                           "nix develop -c torchrun t.py", "script -c 'torchrun t.py' log",
                           "uv run -m torch.distributed.run t.py",
                           "python3 -m cProfile -o out -m torch.distributed.run t.py"})
    EXPECT_THAT(refusal(line), HasSubstr("torchrun starts ranks itself")) << line;
}

TEST_F(NestedLauncher, IsFoundInAShellScript) {
  folder_.write("run.sh", "#!/bin/bash\nset -e\nmodule load x\ntorchrun --nproc_per_node 2 t.py\n");
  EXPECT_THAT(refusal("sh run.sh"), StartsWith("run.sh runs torchrun: torchrun starts ranks"));
  EXPECT_THAT(refusal("bash -x run.sh 1"), HasSubstr("type hvdrun -np 2 python3 t.py, or"));
  EXPECT_THAT(refusal("./run.sh"), StartsWith("./run.sh runs torchrun: "));
  folder_.write_program("bind.sh", "#!/bin/sh\nexport A=1\nexec numactl -N $LOCAL_RANK \"$@\"\n");
  EXPECT_THAT(refusal("./bind.sh mpirun -n 2 ./train"), HasSubstr("mpirun starts ranks itself"));
  EXPECT_EQ(refusal("./bind.sh ./train"), "");
  folder_.write("two.sh", "if [ -n \"$A\" ]; then torchrun t.py; else python3 t.py; fi\n");
  EXPECT_EQ(refusal("bash two.sh"), "");
  EXPECT_THAT(notes_, testing::Contains(HasSubstr("two.sh may run torchrun, which starts ranks")));
  EXPECT_THAT(refusal("bash -euo pipefail run.sh"), StartsWith("run.sh runs torchrun: "));
  folder_.write_program("venv/bin/sh/python", "#!/shared/python\ntorchrun t.py\n");
  EXPECT_EQ(refusal("./venv/bin/sh/python"), "");
  folder_.write_program("share.x", "#!/shared/venv/bin/python\ntorchrun = 1\n");
  EXPECT_EQ(refusal("./share.x"), "");
  folder_.write_program("env.x", "#!/usr/bin/env -S bash -e\ntorchrun t.py\n");
  EXPECT_THAT(refusal("./env.x"), StartsWith("./env.x runs torchrun: "));
}

TEST_F(NestedLauncher, InAScriptIsLeftToTheRankThatTheScriptChooses) {
  for (const auto* text : {"[ $HVD_RANK = 0 ] || exit\nif a; then srun ./train; fi\n",
                           "[ $HVD_RANK = 0 ] || exit 0\nsrun ./train\n",
                           "[ $OMPI_COMM_WORLD_RANK = 0 ] && srun ./train\n",
                           "[ $HVD_RANK != 0 ] || { echo; srun ./train; }\n"}) {
    folder_.write("rank.sh", text);
    EXPECT_THAT(notes("bash rank.sh"), Not(HasSubstr("may run"))) << text;
  }
  EXPECT_EQ(notes("bash -c '[ $HVD_RANK = 0 ] && srun ./train'"), "");
  folder_.write("args.sh", "[ -z \"$1\" ] && exit 1\nsrun ./train\n");
  EXPECT_THAT(refusal("bash args.sh"), StartsWith("args.sh runs srun"));
}

TEST_F(NestedLauncher, OfAScriptIsAnsweredWithTheVariablesOfTheScript) {
  folder_.write("run.sh", "mpirun -np $SLURM_NTASKS -x A=$B ./a \"$HOME/x y\"\n");
  EXPECT_THAT(refusal("bash run.sh 'a b'"),
              EndsWith(": type hvdrun -np N -x \"A=$B\" ./a \"$HOME/x y\", or bash run.sh 'a b' "
                       "without hvdrun"));
}

TEST_F(NestedLauncher, OfAnUnknownNameIsOnlyWarnedOf) {
  EXPECT_THAT(
      notes("unknown -n 2 train"),
      HasSubstr("unknown seems to be a launcher, and hvdrun starts it once in each slot; if "
                "it starts ranks itself, type hvdrun -np 2 train, or unknown without "
                "hvdrun; hvdrun run unknown … starts it without this warning"));
  EXPECT_THAT(notes("unknown run -n 2 train"), HasSubstr("type hvdrun -np 2 train, or"));
  EXPECT_THAT(notes("unknown --nproc_per_node=2 t.py"), HasSubstr("seems to be a launcher"));
  EXPECT_THAT(notes("unknown --ntasks 4 --x y train"), HasSubstr("seems to be a launcher"));
  folder_.write_program("bin/my.py");
  for (const auto* line :
       {"python t.py -n 2 t.py", "python t.py -n 100 train", "my.py -n 2 train",
        "git log -n 1 t.py", "bash -c 'unknown -n 2 train'", "./bin/unknown -n 2 train"})
    EXPECT_EQ(notes(line), "") << line;
}

TEST_F(NestedLauncher, IsOnlyWarnedOfWhereItMayBeAValueOrAnArgument) {
  for (const auto* line :
       {"uv run --with deepspeed python t.py", "conda run -n deepspeed python t.py",
        "apptainer exec --nv x.sif ./bench deepspeed", "uv run --frozen train deepspeed",
        "apptainer exec --nv torchrun train", "guix shell python deepspeed -- python t.py",
        "uv run -m pkg.train torchrun", "strace -f -o torchrun train"})
    EXPECT_EQ(notes(line), "") << line;
  for (const auto* line : {"uv run --unknown deepspeed python t.py", "uv run --unknown x deepspeed",
                           "apptainer exec --unknown 1 x.sif torchrun t.py"})
    EXPECT_THAT(notes(line), HasSubstr("the program may run ")) << line;
}

TEST_F(NestedLauncher, IsNotSeenInWhatOnlyLooksLikeOne) {
  for (const auto* name : {"mpirun_test", "torchrun-debug", "prun"}) folder_.write_program(name);
  for (const auto* line : {"head -n 2 train",
                           "unknown -n 2",
                           "unknown -n two train",
                           "unknown -np 2 file",
                           "train torchrun",
                           "./mpirun_test",
                           "./torchrun-debug",
                           "./prun",
                           "dask worker x",
                           "python3 t.py --launcher torchrun",
                           "python3 t.py torchrun",
                           "env A=torchrun train",
                           "bash -c 'echo torchrun'",
                           "bash -c 'which mpirun'",
                           "train -m torch.distributed.run",
                           "uv run train torchrun",
                           "bash -c 'hvdrun jobs; train'",
                           "sh torchrun.sh",
                           "torchrun.sh",
                           "accelerate config"})
    EXPECT_EQ(notes(line), "") << line;
}

TEST_F(NestedLauncher, IsAnsweredWithTheUsersOwnOptionsAndWrapper) {
  EXPECT_THAT(error({"-np", "4", "-x", "A=it's", "uv", "run", "torchrun", "--nproc_per_node", "2",
                     "t.py", "$5"})
                  .message,
              HasSubstr(": type hvdrun -x 'A=it'\\''s' -np 2 uv run python3 t.py '$5', or torchrun "
                        "without hvdrun"));
  EXPECT_THAT(error({"-np", "4", "jsrun", "-n", "8", "-a", "1", "-c", "2", "./a"}).message,
              HasSubstr(": type hvdrun -np 8 --cpus-per-rank 2 ./a, or jsrun without hvdrun"));
  EXPECT_THAT(error({"jsrun", "-n", "2", "-a", "4", "-c", "8", "-g", "4", "./a"}).message,
              HasSubstr(": type hvdrun -np 8 --cpus-per-rank 2 ./a, or jsrun without hvdrun; the "
                        "line leaves out -g"));
  EXPECT_THAT(
      error({"jsrun", "--nrs", "2", "--tasks_per_rs", "2", "--cpu_per_rs", "4", "./a"}).message,
      HasSubstr(": type hvdrun -np 4 --cpus-per-rank 2 ./a, or jsrun without hvdrun"));
  EXPECT_THAT(error({"-np", "4", "aprun", "-n", "8", "-N", "4", "-d", "2", "./a"}).message,
              HasSubstr(": type hvdrun -np 8 --ranks-per-host 4 --cpus-per-rank 2 ./a, or"));
  EXPECT_THAT(error({"-np", "4", "ibrun", "./a"}).message,
              HasSubstr(": type hvdrun -np 4 ./a, or ibrun without hvdrun"));
  EXPECT_THAT(error({"-np", "2", "sbatch", "job.sh"}).message,
              StartsWith("sbatch submits a job, and hvdrun would start it once in each slot: type "
                         "sbatch … without hvdrun"));
  EXPECT_THAT(error({"-np", "2", "--wrap", "torchrun --nproc_per_node 2", "t.py"}).message,
              HasSubstr(": type hvdrun -np 2 python3 t.py, or torchrun without hvdrun"));
  EXPECT_THAT(
      error({"--wrap", "nsys profile", "torchrun", "--nproc_per_node", "2", "t.py"}).message,
      HasSubstr(": type hvdrun --wrap 'nsys profile' -np 2 python3 t.py, or"));
}

TEST_F(NestedLauncher, ThatIsHvdrunIsAnsweredWithTheOptionsAndWordsOfBoth) {
  const auto what = [&](const std::vector<std::string>& words) {
    const auto text = error(words).message;
    return text.substr(text.find(": type ") + 7);
  };
  EXPECT_EQ(what({"-np", "2", "--label", "rank", "env", "A=1", "hvdrun", "-np", "2", "-x", "B=c d",
                  "./x", "$5"}),
            "hvdrun -np 2 --label rank -x 'B=c d' env A=1 ./x '$5'");
  EXPECT_EQ(what({"-np", "4", "-x", "A=1", "hvdrun", "-np", "2", "-x", "B=2", "./x"}),
            "hvdrun -x A=1 -np 2 -x B=2 ./x; the line leaves out -np 4");
  EXPECT_EQ(what({"-H", "a:2", "hvdrun", "--hostfile", "f", "./x"}),
            "hvdrun --hostfile f ./x; the line leaves out -H a:2");
  EXPECT_EQ(what({"-np", "2", "--wrap", "hvdrun --verbose", "t.py"}),
            "hvdrun -np 2 --verbose t.py");
  EXPECT_EQ(what({"-np", "2", "hvdrun", "sbatch", "-t", "5", "./x"}),
            "hvdrun sbatch -np 2 -t 5 -- ./x");
  EXPECT_EQ(what({"-np", "2", "hvdrun", "jobs", "--here"}), "hvdrun jobs --here");
  EXPECT_EQ(what({"-np", "2", "--label", "rank", "hvdrun", "scale", "-np", "1,2", "./x"}),
            "hvdrun scale --label rank -np 1,2 ./x");
  EXPECT_EQ(what({"-np", "2", "hvdrun", "--unknown", "./x"}), "hvdrun -np 2 --unknown ./x");
  EXPECT_EQ(what({"-np", "2", "hvdrun"}), "hvdrun -np 2 program");
  EXPECT_EQ(what({"-np", "2", "bash", "-c", "hvdrun -np $N ./x \"$A\""}),
            "hvdrun -np N ./x \"$A\"; the line leaves out -np 2");
}

TEST_F(NestedLauncher, ThatIsHvdrunIsAnsweredWithTheOptionsOfSbatch) {
  const auto what = [&](const std::vector<std::string>& words) {
    const auto split = cli::split_words(words, cli::batch_options());
    const JobSpec spec;
    const cli::TypedJob job{spec, split->options, environment_, folder_.path(), "sbatch"};
    const auto checked = cli::check_nested_launcher(split->command, job);
    const auto text = checked ? *checked : checked.error().message;
    return text.substr(text.find(": type ") + 7);
  };
  EXPECT_EQ(what({"-np", "4", "--gpus-per-node", "4", "--cpus-per-node", "16", "--", "hvdrun",
                  "-np", "4", "python3", "t.py"}),
            "hvdrun sbatch -np 4 --gpus-per-node 4 --cpus-per-node 16 -- python3 t.py");
  EXPECT_EQ(what({"--gpus-per-node", "4", "--", "srun", "-n", "4", "-p", "gpu", "--time=5", "--mem",
                  "4G", "./x"}),
            "hvdrun sbatch --gpus-per-node 4 -np 4 -p gpu --time 5 --mem 4G -- ./x");
  EXPECT_EQ(what({"-np", "2", "--", "hvdrun", "./nothing.sh"}),
            "hvdrun sbatch -np 2 -- ./nothing.sh");
  EXPECT_EQ(what({"--gpus-per-node", "0", "hvdrun", "sbatch", "-np", "2", "./x"}),
            "hvdrun sbatch --gpus-per-node 0 -np 2 -- ./x");
  EXPECT_EQ(what({"-np", "2", "--sbatch-arg=--nice", "hvdrun", "./x"}),
            "hvdrun sbatch -np 2 --sbatch-arg=--nice -- ./x");
  EXPECT_EQ(
      what({"-np", "2", "--submit", "hvdrun", "scale", "-np", "1,2", "./x"}),
      "hvdrun salloc -np 2 -- sh -c 'hvdrun scale -np 1,2 ./x'; the line leaves out --submit");
}

TEST_F(NestedLauncher, WithoutANumberIsAnsweredWithTheUsers) {
  EXPECT_THAT(refusal("accelerate launch t.py"),
              HasSubstr(": type hvdrun -np 2 --for accelerate python3 t.py, or"));
  EXPECT_THAT(refusal("horovodrun python t.py"),
              HasSubstr(": type hvdrun -np 2 --horovod python t.py, or"));
  EXPECT_THAT(refusal("mpirun -x A=1 ./a"), HasSubstr(": type hvdrun -np 2 -x A=1 ./a, or"));
  EXPECT_THAT(error({"mpirun", "-x", "A=1", "./a"}).message,
              HasSubstr(": type hvdrun -np N -x A=1 ./a, or"));
}

TEST_F(NestedLauncher, WithoutHostsIsAnsweredWithTheUsers) {
  EXPECT_THAT(error({"-H", "a:2,b:2", "mpirun", "-np", "4", "./a"}).message,
              HasSubstr(": type hvdrun -H a:2,b:2 -np 4 ./a, or"));
  EXPECT_THAT(error({"-H", "a:2", "mpirun", "-H", "b:2", "./a"}).message,
              HasSubstr(": type hvdrun -H b:2 ./a, or"));
  EXPECT_THAT(
      error({"-H", "a,b", "torchrun", "--nnodes", "2", "--nproc-per-node", "4", "t.py"}).message,
      HasSubstr(": type hvdrun -H a,b --nnodes 2 --ranks-per-host 4 python3 t.py, or"));
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
  EXPECT_FALSE(cli::is_script_with_launcher({"bash", "-c", "if a; then srun ./train; fi"}, job));
  EXPECT_FALSE(cli::is_script_with_launcher({"bash", "-c", "unknown -n 2 train"}, job));
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
