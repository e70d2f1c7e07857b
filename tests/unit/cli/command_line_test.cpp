#include "cli/command_line.hpp"

#include "cli/nested_launcher.hpp"
#include "command_line_fixture.hpp"

#include <functional>

#include <gmock/gmock.h>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

using CommandLine = test::CommandLineTest;

TEST_F(CommandLine, StoresEveryOptionInItsFieldOfTheJob) {
  const std::pair<std::vector<std::string>, std::function<bool(const JobSpec&)>> cases[] = {
      {{"-np", "4"}, [](const auto& j) { return j.ranks == 4; }},
      {{"-np", "10000000"}, [](const auto& j) { return j.ranks == 10000000; }},
      {{"-H", "localhost:2,b"},
       [](const auto& j) {
         return j.hosts.size() == 2 && j.hosts[0].slots == 2 && j.hosts[1].name == "b";
       }},
      {{"--hostfile", "f"}, [](const auto& j) { return j.hostfile == "f"; }},
      {{"-hostfile", "f"}, [](const auto& j) { return j.hostfile == "f"; }},
      {{"--include", "n[1-2],x"}, [](const auto& j) { return j.include.size() == 3; }},
      {{"--include", "n1", "--include", "all"}, [](const auto& j) { return j.include.empty(); }},
      {{"--exclude", "n[1-2]"}, [](const auto& j) { return j.exclude.at(1) == "n2"; }},
      {{"--exclude", "n1", "--exclude", "none"}, [](const auto& j) { return j.exclude.empty(); }},
      {{"--for", "jax,torchrun", "--for", "mlx"},
       [](const auto& j) {
         return j.frameworks == std::set{Framework::jax, Framework::mlx, Framework::torchrun};
       }},
      {{"--for", "jax", "--for", "none"}, [](const auto& j) { return j.frameworks.empty(); }},
      {{"--print-env"}, [](const auto& j) { return j.print_env; }},
      {{"--nnodes", "3"}, [](const auto& j) { return j.nodes == 3; }},
      {{"--map-by", "node"}, [](const auto& j) { return j.map_by == MapBy::node; }},
      {{"--ranks-per-host", "1"}, [](const auto& j) { return j.ranks_per_host == 1; }},
      {{"--oversubscribe"}, [](const auto& j) { return j.oversubscribe; }},
      {{"--bind-to", "core"}, [](const auto& j) { return j.bind_to == BindTo::core; }},
      {{"--bind-to", "numa"}, [](const auto& j) { return j.bind_to == BindTo::numa; }},
      {{"--bind-to", "socket"}, [](const auto& j) { return j.bind_to == BindTo::socket; }},
      {{"--bind-to", "none"}, [](const auto& j) { return j.bind_to == BindTo::none; }},
      {{"--cpus-per-rank", "8"}, [](const auto& j) { return j.cpus_per_rank == 8; }},
      {{"--gpu-bind", "single"}, [](const auto& j) { return j.gpu_bind == GpuBind::single; }},
      {{"--gpu-bind", "none"}, [](const auto& j) { return j.gpu_bind == GpuBind::none; }},
      {{"--report-bindings"}, [](const auto& j) { return j.report_bindings; }},
      {{"--horovod"}, [](const auto& j) { return j.horovod && !j.horovod_folder.empty(); }},
      {{"--dry-run", "--json"}, [](const auto& j) { return j.dry_run && j.json; }},
      {{"-x", "A=1", "-x", "PATH"},
       [](const auto& j) {
         return j.environment.size() == 2 && j.environment[0].value == "1" &&
                !j.environment[1].value;
       }},
      {{"-x", "A=1", "-x", "B=2", "-x", "A=3"},
       [](const auto& j) {
         return j.environment.size() == 2 && j.environment[0].name == "A" &&
                j.environment[0].value == "3";
       }},
      {{"--pmix", "on"}, [](const auto& j) { return j.pmix == PmixMode::on; }},
      {{"--pmix", "off"}, [](const auto& j) { return j.pmix == PmixMode::off; }},
      {{"--start-timeout", "2m"},
       [](const auto& j) { return j.start_timeout == milliseconds(120000); }},
      {{"--wrap", "perf stat -o $RANK"},
       [](const auto& j) { return j.wrap.command == "perf stat -o $RANK" && !j.wrap.ranks; }},
      {{"--wrap", "0,2-3:a:b"},
       [](const auto& j) {
         return j.wrap.command == "a:b" && j.wrap.ranks->to_string() == "0,2-3";
       }},
      {{"--stdin", "none"}, [](const auto& j) { return j.input.to == InputSpec::To::none; }},
      {{"--stdin", "all"}, [](const auto& j) { return j.input.to == InputSpec::To::all; }},
      {{"--stdin", "3"}, [](const auto& j) { return j.input.rank == 3; }},
      {{"--label", "rank@host"}, [](const auto& j) { return j.output.label == "rank@host"; }},
      {{"--label", "[{rank},{host}]"},
       [](const auto& j) { return j.output.label == "[{rank},{host}]"; }},
      {{"-prefix-timestamp"}, [](const auto& j) { return j.output.timestamps; }},
      {{"--color", "always"}, [](const auto& j) { return j.output.color == ColorMode::always; }},
      {{"--color", "never"}, [](const auto& j) { return j.output.color == ColorMode::never; }},
      {{"--only-rank", "0,4-7"},
       [](const auto& j) { return j.output.only_ranks->to_string() == "0,4-7"; }},
      {{"--only-rank", "0", "--only-rank", "all"},
       [](const auto& j) { return !j.output.only_ranks; }},
      {{"--output-filename", "logs"}, [](const auto& j) { return j.output.directory == "logs"; }},
      {{"--on-output-error", "stop"},
       [](const auto& j) { return j.output.on_error == OnOutputError::stop; }},
      {{"--report", "r.json"}, [](const auto& j) { return j.report_file == "r.json"; }},
      {{"--kill-signal", "INT"}, [](const auto& j) { return j.stop.signal == SIGINT; }},
      {{"--max-restarts", "3"}, [](const auto& j) { return j.max_restarts == 3; }},
      {{"--min-np", "2"}, [](const auto& j) { return j.elastic.min_ranks == 2; }},
      {{"--min-np", "2"}, [](const auto& j) { return j.pmix == PmixMode::off; }},
      {{"--min-num-proc", "2"}, [](const auto& j) { return j.elastic.min_ranks == 2; }},
      {{"--min-np", "2", "--max-np", "4"},
       [](const auto& j) { return j.elastic.max_ranks == 4 && j.elastic.replaces; }},
      {{"--min-np", "2", "--max-num-proc", "4", "--replace", "off"},
       [](const auto& j) { return j.elastic.max_ranks == 4 && !j.elastic.replaces; }},
      {{"--min-np", "2", "--spares", "3"},
       [](const auto& j) { return j.elastic.spares == 3 && j.elastic.replaces; }},
      {{"--min-np", "2", "--replace", "auto"}, [](const auto& j) { return j.elastic.replaces; }},
      {{"--min-np", "2"}, [](const auto& j) { return !j.elastic.replaces; }},
      {{"--min-np", "2", "--reset-limit", "0"},
       [](const auto& j) { return j.elastic.reset_limit == 0; }},
      {{"--elastic-timeout", "5m"},
       [](const auto& j) { return j.elastic.elastic_timeout == milliseconds(300'000); }},
      {{"--reset-timeout", "2m"},
       [](const auto& j) { return j.elastic.reset_timeout == milliseconds(120'000); }},
      {{"--reset-timeout", "0.5"},
       [](const auto& j) { return j.elastic.reset_timeout == milliseconds(500); }},
      {{"--grace", "0.5"}, [](const auto& j) { return j.stop.grace == milliseconds(500); }},
      {{"--exit-timeout", "0"},
       [](const auto& j) { return j.stop.exit_timeout == milliseconds(0); }},
      {{"--exit-timeout", "5", "--exit-timeout", "none"},
       [](const auto& j) { return !j.stop.exit_timeout; }},
      {{"--verbose", "--verbose"}, [](const auto& j) { return j.verbosity == 2; }},
      {{}, [](const auto& j) { return !j.ranks && j.hosts.empty() && j.verbosity == 0; }},
  };
  for (const auto& [args, holds] : cases)
    EXPECT_TRUE(holds(job(args))) << testing::PrintToString(args);
}

TEST_F(CommandLine, UsesHostsOfTheLastSourceAndPrefersDashHWithinOne) {
  for (const auto& args : {std::vector<std::string>{"-H", "a", "--hostfile", "f", "prog"},
                           std::vector<std::string>{"--hostfile", "f", "-H", "a", "prog"}}) {
    const auto both = parse(args);
    ASSERT_TRUE(both) << both.error().message;
    EXPECT_EQ(both->spec.hosts.size(), 1u);
    EXPECT_EQ(both->spec.hostfile, "");
    EXPECT_THAT(both->notes, ElementsAre("--hostfile has no effect: -H names the hosts"));
  }
  folder_.write("site/config.json", R"({"hosts": "a,b"})");
  const auto file = parse({"--hostfile", "f", "prog"});
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_TRUE(file->spec.hosts.empty());
  EXPECT_EQ(file->spec.hostfile, "f");
  folder_.write("site/config.json", R"({"hostfile": "f"})");
  EXPECT_EQ(parse({"-H", "a", "prog"})->spec.hostfile, "");
}

TEST_F(CommandLine, FoldsLinesInTheLogOfABatchScriptOfSlurm) {
  EXPECT_EQ(job({}).output.fold, FoldLines::automatic);
  environment_.insert({{"SLURM_JOB_ID", "7"}, {"ENVIRONMENT", "BATCH"}});
  EXPECT_EQ(job({}).output.fold, FoldLines::in_large_log);
  EXPECT_EQ(job({"--fold-lines", "off"}).output.fold, FoldLines::off);
}

TEST_F(CommandLine, PrintsProgressAsLinesInABatchScriptOfSlurm) {
  EXPECT_EQ(job({}).output.progress, ProgressMode::automatic);
  environment_.insert({{"SLURM_JOB_ID", "7"}, {"ENVIRONMENT", "BATCH"}});
  EXPECT_EQ(job({}).output.progress, ProgressMode::log);
  EXPECT_EQ(job({"--progress", "never"}).output.progress, ProgressMode::never);
  environment_.erase("SLURM_JOB_ID");
  EXPECT_EQ(job({}).output.progress, ProgressMode::automatic);
}

TEST_F(CommandLine, FindsTheProgramAndKeepsItsArguments) {
  const auto invocation = parse({"-np", "2", "prog", "-np", "--help"});
  ASSERT_TRUE(invocation);
  EXPECT_EQ(invocation->action, Invocation::Action::run);
  EXPECT_THAT(invocation->spec.command, ElementsAre("prog", "-np", "--help"));
  EXPECT_EQ(invocation->spec.program, program_);
  EXPECT_EQ(invocation->spec.working_directory, folder_.path());
  EXPECT_THAT(invocation->notes, IsEmpty());
}

TEST_F(CommandLine, RefusesInvalidValuesAndNamesTheOption) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"-np", "0"}, "-np needs a whole number of 1 or more, not \"0\""},
      {{"-np", "-1"}, "-np needs a whole number of 1 or more, not \"-1\""},
      {{"--np=abc"}, "--np needs a whole number of 1 or more, not \"abc\""},
      {{"-np", "99999999999"}, "-np cannot be \"99999999999\": that is out of range"},
      {{"-np", "1\n2"}, "-np needs a whole number of 1 or more, not \"1\\n2\""},
      {{"-x", "=v"}, "-x needs NAME or NAME=VALUE, not \"=v\""},
      {{"--max-restarts", "-1"}, "--max-restarts needs a whole number of 0 or more, not \"-1\""},
      {{"--min-np", "0"}, "--min-np needs a whole number of 1 or more, not \"0\""},
      {{"--min-num-proc", "x"}, "--min-num-proc needs a whole number of 1 or more, not \"x\""},
      {{"--reset-timeout", "0"}, "--reset-timeout needs a time of more than 0, not \"0\""},
      {{"--reset-timeout", "soon"},
       "--reset-timeout needs a time such as 30, 0.5, 500ms or 2m, not \"soon\""},
      {{"--spares", "1"}, "--spares needs --min-np M: otherwise the job ends when a rank is lost"},
      {{"--min-np", "2", "-np", "4", "--max-np", "3"}, "--max-np 3 is less than -np 4"},
      {{"--min-np", "2", "--pmix", "on"},
       "--min-np does not work with --pmix on: a process cannot leave its PMIx job"},
      {{"--min-np", "2", "-x", "HVD_TRANSPORT=mpi"},
       "--min-np does not work with HVD_TRANSPORT=mpi: MPI cannot lose a rank"},
      {{"--grace", "-1"}, "--grace needs a time such as 30, 0.5, 500ms or 2m, not \"-1\""},
      {{"--start-timeout", "0"}, "--start-timeout needs a time of more than 0, not \"0\""},
      {{"--bind-to", "cores"}, "--bind-to must be core, numa, socket, none or auto, not \"cores\""},
      {{"--only-rank", "3-1"}, "--only-rank needs ranks such as 0,4-7 or last, not \"3-1\""},
      {{"--only-rank", ""}, "--only-rank needs ranks such as 0,4-7 or last, not \"\""},
      {{"--output-filename", ""}, "--output-filename needs a name that is not empty"},
      {{"-H", "a:0"},
       "-H is not valid: \"a:0\" needs a whole number of slots after the \":\", 1 or more"},
      {{"--include", "n1:4"},
       "--include takes names of hosts only, such as n[1-4],n7, not \"n1:4\""},
      {{"--exclude", "n[4-1]"}, "--exclude is not valid: \"n[4-1]\" runs backwards at \"4-1\""},
      {{"--nnodes", "0"}, "--nnodes needs a whole number of 1 or more, not \"0\""},
      {{"--nnodes=1:4"},
       "--nnodes needs one number of hosts, not \"1:4\": a program that uses libhvd may continue "
       "with fewer ranks (--min-np M), or with more (--max-np X)"},
      {{"--map-by", "core"}, "--map-by must be slot or node, not \"core\""},
      {{"--map-by", "slot:PE=2"},
       "--map-by must be slot or node, not \"slot:PE=2\"; --cpus-per-rank K gives each rank K "
       "cores"},
      {{"--for", "jax,pytorch"}, "--for is not needed for \"pytorch\": leave it out"},
      {{"--hostfile", ""}, "--hostfile needs a name that is not empty"},
      {{"--for", "jax,tf"},
       "--for must be accelerate, jax, mlx, tensorflow or torchrun, not \"tf\""},
      {{"--kill-signal", "0"},
       "--kill-signal needs a signal such as TERM, INT, USR1 or 15, not \"0\""},
  };
  for (auto [args, message] : cases) {
    args.emplace_back("prog");
    const auto refused = error(args);
    EXPECT_EQ(refused.message, message);
    EXPECT_EQ(refused.exit_code, kExitUsage);
  }
}

TEST_F(CommandLine, RefusesACommandOfTheClusterAsTheFirstWord) {
  EXPECT_THAT(
      error({"squeue"}).message,
      StartsWith("squeue is a program of its own: type squeue or hvdrun jobs; hvdrun run "));
  EXPECT_EQ(error({"squeue"}).exit_code, kExitUsage);
  EXPECT_EQ(error({"run", "squeue-of-no-path"}).exit_code, kExitNotFound);
}

TEST_F(CommandLine, RefusesAProgramNamedLikeAnotherToolsCommand) {
  for (const auto* name : {"kill", "ps", "status"})
    folder_.write_program(std::string("bin/") + name);
  const auto refused = error({"kill", "-9", "12", "13_4"});
  EXPECT_EQ(
      refused.message,
      "kill is no command of hvdrun: type hvdrun cancel 12 13_4; hvdrun run kill … starts the "
      "program of that name on each slot");
  EXPECT_EQ(refused.exit_code, kExitUsage);
  EXPECT_THAT(error({"ps", "12"}).message, HasSubstr(": type hvdrun jobs; hvdrun run ps"));
  EXPECT_THAT(error({"status"}).message, HasSubstr("status is no command of hvdrun"));
  EXPECT_TRUE(parse({"run", "kill", "12"}));
  EXPECT_TRUE(parse({"-np", "1", "kill", "12"}));
}

TEST_F(CommandLine, NamesNoHostsInASlurmJob) {
  environment_["SLURM_JOB_ID"] = "7";
  const std::vector<std::string> words{"torchrun",         "--nnodes", "2",
                                       "--nproc_per_node", "2",        "t.py"};
  EXPECT_THAT(error(words).message,
              HasSubstr(": type hvdrun --nnodes 2 --ranks-per-host 2 python3 t.py, or"));
  EXPECT_THAT(error({"torchrun", "--rdzv_backend", "c10d", "t.py"}).message,
              HasSubstr(": type hvdrun python3 t.py, or"));
  const std::vector<std::vector<std::string>> options = {{"--node_rank", "0", "t"},
                                                         {"--rdzv_endpoint", "n1:1", "t"},
                                                         {"--machine_rank", "0", "t"},
                                                         {"-rf", "f", "t"},
                                                         {"-w", "n1", "t"},
                                                         {"--nodefile", "f", "t"},
                                                         {"--add-host", "n3", "t"},
                                                         {"--no_ssh", "t"},
                                                         {"--jsrun", "t"}};
  for (const auto& each : options) {
    EXPECT_THAT(error(each).message,
                HasSubstr("leave it out: in a scheduler's job hvdrun finds the hosts"))
        << each.front();
    EXPECT_THAT(error(each).message, Not(HasSubstr("-H"))) << each.front();
  }
  environment_.erase("SLURM_JOB_ID");
  for (const auto& each : options)
    EXPECT_THAT(error(each).message, Not(HasSubstr("in a scheduler's job hvdrun finds")))
        << each.front();
  const JobSpec spec;
  const std::vector<cli::ParsedOption> none;
  const cli::TypedJob job{spec, none, environment_, folder_.path(), "sbatch"};
  EXPECT_THAT(cli::check_nested_launcher(words, job).error().message,
              testing::EndsWith("type hvdrun sbatch --nnodes 2 --ranks-per-host 2 -- python3 t.py; "
                                "hvdrun --ranks-per-host 1 starts it once on each host"));
}

TEST_F(CommandLine, KnowsTorchrunThatIsStartedOnceOnEachHost) {
  folder_.write("run.sh", "#!/bin/sh\nif a; then torchrun t.py; fi\n");
  JobSpec spec;
  const std::vector<cli::ParsedOption> none;
  const auto starts_torchrun = [&](const std::vector<std::string>& command) {
    return cli::starts_torchrun(command, {spec, none, environment_, folder_.path()});
  };
  EXPECT_TRUE(starts_torchrun({"/opt/bin/torchrun", "t.py"}));
  EXPECT_TRUE(starts_torchrun({"python3", "-m", "torch.distributed.run", "t.py"}));
  EXPECT_TRUE(starts_torchrun({"uv", "run", "torchrun", "t.py"}));
  EXPECT_TRUE(starts_torchrun({"bash", "run.sh"}));
  EXPECT_FALSE(starts_torchrun({"accelerate", "launch", "t.py"}));
  EXPECT_FALSE(starts_torchrun({"t.py"}));
  spec.wrap.command = "torchrun --nproc-per-node 2";
  EXPECT_TRUE(starts_torchrun({"t.py"}));
  EXPECT_THAT(error({"-np", "2", "accelerate", "launch", "t.py"}).message,
              Not(HasSubstr("once on each host")));
}

TEST_F(CommandLine, RefusesAProgramThatStartsRanksItself) {
  const std::vector<std::vector<std::string>> refused = {
      {"hvdrun", "-np", "2", "true"},
      {"-np", "4", "mpirun", "./a"},
      {"-np", "4", "--", "/usr/bin/mpirun.openmpi", "-np", "4", "./a"},
      {"--ranks-per-host", "1", "mpiexec", "./a"},
      {"-np", "2", "horovodrun", "-np", "2", "python3", "train.py"},
      {"-np", "2", "srun", "./a"},
      {"torchrun", "--nproc_per_node", "2", "train.py"},
      {"-np", "2", "python3", "-u", "-m", "torch.distributed.run", "train.py"},
      {"-np", "2", "accelerate", "launch", "train.py"},
      {"-np", "2", "python", "-m", "accelerate.commands.launch", "train.py"},
      {"-np", "2", "deepspeed", "train.py"},
  };
  for (const auto& words : refused) {
    EXPECT_THAT(error(words).message, HasSubstr(" starts ranks itself, and hvdrun would start it "))
        << words.front();
    EXPECT_EQ(error(words).exit_code, kExitUsage);
  }
  EXPECT_EQ(error({"-np", "2", "torchrun", "--nproc_per_node", "2", "train.py", "a b"}).message,
            "torchrun starts ranks itself, and hvdrun would start it once in each slot: type "
            "hvdrun -np 2 python3 train.py 'a b', or torchrun without hvdrun; hvdrun "
            "--ranks-per-host 1 starts it once on each host");
  EXPECT_THAT(error({"mpirun", "--bind-to", "core", "-n", "4", "./a.out", "-x"}).message,
              HasSubstr(": type hvdrun -np 4 --bind-to core ./a.out -x, or mpirun without"));
  EXPECT_THAT(error({"mpirun", "--unknown", "4", "-H", "a", "./a.out"}).message,
              HasSubstr(": type hvdrun -np N program, or mpirun without hvdrun; the line leaves "
                        "out --unknown and what follows it"));
  EXPECT_THAT(error({"torchrun", "--nproc-per-node=8", "-m", "pkg.train"}).message,
              HasSubstr(": type hvdrun -np 8 python3 -m pkg.train, or"));
  EXPECT_THAT(error({"-np", "2", "hvdrun", "jobs", "--all"}).message,
              testing::EndsWith(": type hvdrun jobs --all"));
  const JobSpec spec;
  const std::vector<cli::ParsedOption> none;
  EXPECT_THAT(cli::check_nested_launcher({"srun", "-n2", "./a"},
                                         {spec, none, environment_, folder_.path(), "sbatch"})
                  .error()
                  .message,
              testing::EndsWith(": type hvdrun sbatch -np 2 -- ./a"));
  const std::vector<std::vector<std::string>> taken = {
      {"run", "-np", "2", "mpirun-of-no-path"},
      {"-np", "1", "torchrun", "train.py"},
      {"--ranks-per-host", "1", "torchrun", "train.py"},
      {"accelerate", "config"},
      {"-np", "2", "mpirun", "--version"},
      {"-np", "2", "python3-of-no-path", "-m", "train", "-m", "torch.distributed.run"},
  };
  for (const auto& words : taken) EXPECT_EQ(error(words).exit_code, kExitNotFound) << words.front();
}

TEST_F(CommandLine, TranslatesTheOptionsOfAnotherLauncherOrSaysThatTheyAreLeftOut) {
  struct Case {
    std::vector<std::string> typed;
    std::string line;
    std::string left_out;  // what the message says of it
  };
  const std::vector<Case> cases = {
      {{"mpirun", "-np", "2", "--host", "a:2", "-x", "FOO=1", "python", "-u", "t.py"},
       "-np 2 -H a:2 -x FOO=1 python -u t.py",
       ""},
      {{"mpirun", "--mca", "btl", "tcp,self", "-N", "2", "./a", "-x"},
       "-x OMPI_MCA_btl=tcp,self --ranks-per-host 2 ./a -x",
       ""},
      {{"mpiexec", "-hosts", "a,b", "-ppn", "2", "-genv", "A", "two words", "./a"},
       "--hosts a,b --ranks-per-host 2 -x 'A=two words' ./a",
       ""},
      {{"srun", "-n2", "-N", "2", "-w", "n1,n2", "--gres", "gpu:2", "./a"},
       "-np 2 --nnodes 2 -H n1,n2 ./a",
       "--gres (use -np N: one rank per GPU"},
      {{"horovodrun", "-np", "2", "--min-np", "1", "--max-np", "4", "--host-discovery-script",
        "./hosts.sh", "python", "t.py"},
       "--horovod -np 2 --min-np 1 --max-np 4 python t.py",
       "--host-discovery-script (a job keeps its hosts; --min-np M continues"},
      {{"torchrun", "--nnodes=1", "--nproc-per-node=2", "t.py"}, "-np 2 python3 t.py", ""},
      {{"torchrun", "--nnodes=1:4", "--nproc_per_node", "2", "--rdzv-id=7", "--tee", "3", "t.py"},
       "-H HOST,… --min-np 2 --max-np 8 python3 t.py",
       "--rdzv-id and --tee"},
      {{"torchrun", "--nnodes", "2", "--nproc-per-node", "4", "--no-python", "./a"},
       "-H HOST,… --nnodes 2 --ranks-per-host 4 ./a",
       ""},
      {{"accelerate", "launch", "--num_processes", "4", "--config_file", "c.yaml", "t.py"},
       "--for accelerate -np 4 python3 t.py",
       "--config-file"},
      {{"deepspeed", "--num_gpus=2", "--include", "localhost:0", "t.py", "--deepspeed"},
       "--ranks-per-host 2 python3 t.py --deepspeed",
       "--include"},
      {{"mpirun", "-np"}, "-np VALUE program", ""},
  };
  for (const auto& [typed, line, left_out] : cases) {
    const auto message = error(typed).message;
    EXPECT_THAT(message, HasSubstr(": type hvdrun " + line + ", or "));
    if (left_out.empty())
      EXPECT_THAT(message, testing::Not(HasSubstr("leaves out")));
    else
      EXPECT_THAT(message, HasSubstr("; the line leaves out " + left_out));
  }
}

TEST_F(CommandLine, WarnsRankZeroOfAnotherLauncherThatHvdrunRunsSeveralTimes) {
  JobSpec two_ranks;
  two_ranks.ranks = 2;
  const Environment mpirun{{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
  EXPECT_EQ(cli::several_runs_warning(mpirun, two_ranks),
            "another launcher has started hvdrun 4 times (OMPI_COMM_WORLD_SIZE=4), and each starts "
            "all ranks: start hvdrun once, without it");
  const Environment mpiexec{{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}};
  EXPECT_THAT(cli::several_runs_warning(mpiexec, two_ranks), HasSubstr("2 times (PMI_SIZE=2)"));
}

TEST_F(CommandLine, WarnsOfAContainerWithoutTheVariablesOfItsRank) {
  JobSpec spec;
  spec.ranks = 2;
  EXPECT_THAT(cli::container_warning({"podman", "run", "--rm", "image", "./a"}, spec),
              HasSubstr("each rank runs by itself: add --env-host"));
  EXPECT_THAT(cli::container_warning({"/usr/bin/docker", "run", "image"}, spec),
              HasSubstr("add --env-file FILE"));
  EXPECT_EQ(cli::container_warning({"podman", "run", "--env-host", "image"}, spec), "");
  EXPECT_EQ(cli::container_warning({"docker", "run", "-e", "RANK", "image"}, spec), "");
  EXPECT_EQ(cli::container_warning({"podman", "images"}, spec), "");
  EXPECT_EQ(cli::container_warning({"./podman-like", "run"}, spec), "");
}

TEST_F(CommandLine, NotesANumberOfRanksThatHasNoEffect) {
  const auto notes = [&](const std::vector<std::string>& words) { return parse(words)->notes; };
  EXPECT_THAT(notes({"-np", "2", "-np", "3", "prog"}),
              ElementsAre("-np 2 has no effect: -np 3 comes later"));
  EXPECT_THAT(notes({"-H", "a", "-H", "b", "prog"}),
              ElementsAre("-H a has no effect: -H b comes later"));
  EXPECT_THAT(notes({"-np", "2", "-np", "2", "prog"}), IsEmpty());
  EXPECT_THAT(notes({"prog", "-np", "2"}),
              ElementsAre("-np 2 is an argument of prog, because it follows it; to start 2 ranks: "
                          "hvdrun -np 2 prog …"));
  EXPECT_THAT(notes({"-np", "2", "prog", "-np", "2"}), IsEmpty());
  EXPECT_THAT(notes({"prog", "-np", "two"}), IsEmpty());
}

TEST_F(CommandLine, NamesAFolderOfTheRanksThatDoesNotExist) {
  EXPECT_THAT(error({"--chdir", "nosuch", "./prog"}).message,
              testing::MatchesRegex("there is no folder \"?.*nosuch\"? \\(--chdir\\)"));
}

TEST_F(CommandLine, ExplainsWordsThatAreNoPrograms) {
  EXPECT_THAT(error({"\u2014np", "2", "prog"}).message, HasSubstr("a long dash: type -np"));
  EXPECT_THAT(error({"-np", "2", "cd", "sub"}).message,
              HasSubstr("bash -c 'cd … && exec PROGRAM'"));
  EXPECT_THAT(error({"pyhton3", "train.py"}).message, HasSubstr("did you mean python3?"));
}

TEST_F(CommandLine, DoesNotWarnOfSeveralRunsWhereThereIsOneOrTheJobHasOneRank) {
  JobSpec spec;
  spec.ranks = 2;
  EXPECT_EQ(cli::several_runs_warning({}, spec), "");
  EXPECT_EQ(cli::several_runs_warning({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, spec), "");
  EXPECT_EQ(cli::several_runs_warning({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, spec), "");
  spec.ranks = 1;
  EXPECT_EQ(cli::several_runs_warning({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}, spec), "");
}

TEST_F(CommandLine, SuggestsACommandWithASimilarName) {
  EXPECT_THAT(error({"sbacth"}).message, HasSubstr("; did you mean hvdrun sbatch?"));
  EXPECT_THAT(error({"status"}).message, HasSubstr("; did you mean hvdrun jobs?"));
  EXPECT_THAT(error({"log", "12"}).message, HasSubstr("; did you mean hvdrun logs?"));
  EXPECT_EQ(error({"status"}).exit_code, kExitNotFound);
  EXPECT_THAT(error({"-np", "2", "status"}).message, Not(HasSubstr("did you mean")));
  EXPECT_THAT(error({"nosuch"}).message, Not(HasSubstr("did you mean")));
}

TEST_F(CommandLine, ErrorWithoutAProgramShowsTheUsage) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{}, {"-np", "2"}, {"run"}, {"--"}}) {
    const auto refused = error(args);
    EXPECT_THAT(refused.message, StartsWith("no program given; usage: hvdrun -np N program"));
    EXPECT_EQ(refused.exit_code, kExitUsage);
  }
}

TEST_F(CommandLine, UsesTheShellsExitCodesForTheProgramsErrors) {
  EXPECT_EQ(error({"nosuch"}).exit_code, kExitNotFound);
  EXPECT_EQ(error({""}).exit_code, kExitNotFound);
  EXPECT_EQ(error({"./bin"}).exit_code, kExitNotExecutable);
}

TEST_F(CommandLine, RemovedWorkingDirectoryIsAnError) {
  system_paths_.working_directory.clear();
  EXPECT_THAT(error({"prog"}).message, HasSubstr("current directory does not exist"));
}

TEST_F(CommandLine, ActionsNeedNoProgramAndReadNoConfigFile) {
  folder_.write("site/config.json", "broken");
  EXPECT_EQ(parse({"--help"})->action, Invocation::Action::help);
  EXPECT_THAT(parse({"-h"})->text, StartsWith("usage: hvdrun"));
  EXPECT_THAT(parse({"--version"})->text, StartsWith("hvdrun " HVD_TEST_VERSION "\n"));
  EXPECT_EQ(parse({"-cb"})->action, Invocation::Action::check_build);
}

TEST_F(CommandLine, LaterSourcesOverrideEarlierOnesKeyByKey) {
  folder_.write("site/config.json",
                R"({"num-proc": 1, "grace": 1, "bind-to": "core", "color": "never", "verbose": 3,
                    "oversubscribe": true, "x": {"A": "site", "B": "site"}})");
  folder_.write("home/.config/hvdrun/config.json",
                R"({"num-proc": 2, "grace": 2, "bind-to": "numa"})");
  environment_["HVDRUN_CONFIG"] =
      folder_.write("environment.json", R"({"num-proc": 3, "grace": 3})").string();
  const auto file = folder_.write("job.json", R"({"num-proc": 4})").string();
  const auto spec =
      job({"-np", "5", "--verbose", "--no-oversubscribe", "-x", "B=words", "--config-file", file});
  EXPECT_EQ(spec.ranks, 5);
  EXPECT_EQ(spec.stop.grace, milliseconds(3000));
  EXPECT_EQ(spec.bind_to, BindTo::numa);
  EXPECT_EQ(spec.output.color, ColorMode::never);
  EXPECT_EQ(spec.verbosity, 1);
  EXPECT_FALSE(spec.oversubscribe);
  ASSERT_EQ(spec.environment.size(), 2u);
  EXPECT_EQ(spec.environment[0].value, "site");
  EXPECT_EQ(spec.environment[1].value, "words");
  EXPECT_EQ(job({"--config-file", file}).ranks, 4);
  EXPECT_EQ(job({}).ranks, 3);
  environment_.erase("HVDRUN_CONFIG");
  EXPECT_EQ(job({}).ranks, 2);
  environment_.erase("HOME");
  EXPECT_EQ(job({}).ranks, 1);
}

TEST_F(CommandLine, ReadsConfigFilesInOrder) {
  const auto one = folder_.write("one.json", R"({"num-proc": 1, "grace": 1})").string();
  const auto two = folder_.write("two.json", R"({"num-proc": 2})").string();
  const auto spec = job({"--config-file", one, "--config-file", two});
  EXPECT_EQ(spec.ranks, 2);
  EXPECT_EQ(spec.stop.grace, milliseconds(1000));
}

TEST_F(CommandLine, UnreadableConfigFileIsAnError) {
  const auto missing = (folder_.path() / "nosuch.json").string();
  EXPECT_EQ(error({"--config-file", missing, "prog"}).message,
            "cannot read the config file " + missing + ": No such file or directory");
  const auto folder = folder_.path().string();
  EXPECT_EQ(error({"--config-file", folder, "prog"}).message,
            "cannot read the config file " + folder + ": Is a directory");
  EXPECT_THAT(error({"--config-file", "/dev/zero", "prog"}).message,
              HasSubstr("larger than 1 MiB"));
  environment_["HVDRUN_CONFIG"] = missing;
  EXPECT_EQ(error({"prog"}).exit_code, kExitUsage);
}

TEST_F(CommandLine, RefusesInvalidValuesOfAConfigFileWithFileAndLine) {
  const auto file = folder_.write("job.json", "{\n\"grace\": 1,\n\"num-proc\": 0\n}").string();
  EXPECT_EQ(error({"--config-file", file, "-np", "4", "prog"}).message,
            file + ":3: \"num-proc\" needs a whole number of 1 or more, not \"0\"");
  folder_.write("job.json", "{\n\"num-proc\" 4}");
  EXPECT_THAT(error({"--config-file", file, "prog"}).message,
              StartsWith(file + ":2:12: not valid JSON: "));
  folder_.write("job.json", "{\"label\": \"{rank}\\u0000\"}");
  EXPECT_EQ(error({"--config-file", file, "prog"}).message,
            file + ":1: \"label\" cannot hold a NUL character");
}

TEST_F(CommandLine, NotesOptionsWithoutEffect) {
  const auto file = folder_.write("job.json", R"({"num-nccl-streams": 7})").string();
  const auto invocation = parse({"--gloo", "--config-file", file, "--json", "-x", "NOPE", "prog"});
  ASSERT_TRUE(invocation);
  EXPECT_THAT(
      invocation->notes,
      ElementsAre("--gloo has no effect: hvdrun brings the ranks together itself",
                  file + ":1: \"num-nccl-streams\" has no effect: it tunes Horovod's engine, which "
                         "hvdrun does not use",
                  "--json has no effect without --dry-run",
                  "-x NOPE has no effect: it is not set in your environment"));
  EXPECT_THAT(parse({"--elastic-timeout", "1", "--reset-timeout", "1", "prog"})->notes,
              ElementsAre("--elastic-timeout has no effect without --min-np",
                          "--reset-timeout has no effect without --min-np"));
  EXPECT_THAT(parse({"--elastic-timeout", "1", "--min-np", "1", "prog"})->notes, ElementsAre());
}

TEST_F(CommandLine, WarnsThatAllRanksGetTheSameDevices) {
  const auto notes = [this](std::vector<std::string> words) {
    words.emplace_back("prog");
    return parse(std::move(words))->notes;
  };
  EXPECT_THAT(notes({"-np", "2", "-x", "CUDA_VISIBLE_DEVICES=0"}),
              ElementsAre("warning: -x CUDA_VISIBLE_DEVICES=0 gives all ranks of a host the same "
                          "devices; CUDA_VISIBLE_DEVICES=0 hvdrun … starts one rank for each"));
  EXPECT_THAT(notes({"-np", "2", "-x", "CUDA_VISIBLE_DEVICES="}), ElementsAre()) << "on CPUs";
  EXPECT_THAT(notes({"-np", "1", "-x", "ROCR_VISIBLE_DEVICES=0,1"}), ElementsAre());
  EXPECT_THAT(notes({"--ranks-per-host", "1", "-x", "CUDA_VISIBLE_DEVICES=0,1"}), ElementsAre());
}

TEST_F(CommandLine, NotesThatAStallEndsNoJobBeforeItsWarning) {
  const auto notes = [this](std::vector<std::string> words) {
    words.insert(words.begin(), {"--stall-check-shutdown-time-seconds", "2"});
    words.emplace_back("prog");
    return parse(std::move(words))->notes;
  };
  EXPECT_THAT(notes({}), ElementsAre(HasSubstr("before the warning, which comes after 60 s")));
  EXPECT_THAT(notes({"--stall-check-warning-time-seconds", "1"}), ElementsAre());
}

std::vector<std::string> hosts_of(const Result<Invocation>& invocation) {
  EXPECT_TRUE(invocation) << invocation.error().message;
  std::vector<std::string> texts;
  if (invocation)
    for (const auto& host : invocation->spec.hosts)
      texts.push_back(host.name + (host.slots ? ":" + std::to_string(*host.slots) : ""));
  return texts;
}

TEST_F(CommandLine, AnswersOtherMeaningsOfItsOptions) {
  folder_.write("nodes", "n1 slots=2\n");
  const auto invocation = parse({"-H", "nodes", "prog"});
  ASSERT_TRUE(invocation) << invocation.error().message;
  EXPECT_THAT(
      invocation->notes,
      testing::Contains("-H nodes names a host; for the hosts in the file nodes: --hostfile "
                        "nodes"));
  EXPECT_THAT(parse({"-H", "n1", "prog"})->notes, IsEmpty());
  EXPECT_THAT(error({"-np", "2", "-c", "print(1)"}).message,
              HasSubstr("to run code: hvdrun … python3 -c 'print(1)'"));
  EXPECT_THAT(
      error({"--for", "horovod", "prog"}).message,
      HasSubstr("--for is not for \"horovod\": --horovod starts a program that imports it"));
}

TEST_F(CommandLine, AsHorovodrunAddsTheModuleAndUsesThisHost) {
  const auto parse_as = [this](const std::vector<std::string>& args, std::string_view called) {
    return parse_command_line(args, environment_, system_paths_, called);
  };
  auto invocation = parse_as({"-np", "5", "prog"}, "horovodrun");
  EXPECT_THAT(hosts_of(invocation), ElementsAre("localhost:5"));
  EXPECT_TRUE(invocation->spec.horovod);
  EXPECT_FALSE(invocation->spec.horovod_folder.empty());
  invocation = parse_as({"-np", "5", "prog"}, "hvdrun");
  EXPECT_THAT(hosts_of(invocation), IsEmpty());
  EXPECT_FALSE(invocation->spec.horovod);

  EXPECT_THAT(hosts_of(parse_as({"-np", "5", "-H", "b:5", "prog"}, "horovodrun")),
              ElementsAre("b:5"));
  EXPECT_THAT(hosts_of(parse_as({"-np", "5", "--hostfile", "f", "prog"}, "horovodrun")), IsEmpty());
  EXPECT_THAT(hosts_of(parse_as({"prog"}, "horovodrun")), IsEmpty());
  environment_["SLURM_JOB_ID"] = "1";
  EXPECT_THAT(hosts_of(parse_as({"-np", "5", "prog"}, "horovodrun")), IsEmpty());

  folder_.write_program("bin/run");
  EXPECT_THAT(parse_as({"run", "prog"}, "horovodrun")->spec.command, ElementsAre("run", "prog"));
}

}  // namespace
}  // namespace hvdrun
