#include "commands/batch_script.hpp"

#include "slurm/template_folders.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hvdrun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ScriptTemplate own(const std::string& name) {
  return load_template(name, {own_template_folder()}).value();
}

BatchShape gpu_shape() {
  return {.ranks = 16,
          .places = 16,
          .nodes = 4,
          .ranks_per_node = 4,
          .gpus_per_node = 4,
          .cpus_per_rank = 40};
}

const BatchCommand kCommand{{"hvdrun", "-np", "16"}, {"python3", "train.py", "--name", "a b"}};

TEST(BatchScript, OfAJobThatSurvivesNodesKeepsItWhenOneFails) {
  auto shape = gpu_shape();
  EXPECT_THAT(batch_script(own("generic"), {}, shape, kCommand)->text, Not(HasSubstr("no-kill")));
  shape.survives_nodes = true;
  EXPECT_THAT(batch_script(own("generic"), {}, shape, kCommand)->text,
              HasSubstr("\n#SBATCH --no-kill\n"));
  BatchSpec batch;
  batch.sbatch_arguments = {"--no-kill=off"};
  EXPECT_THAT(batch_script(own("generic"), batch, shape, kCommand)->text,
              Not(HasSubstr("\n#SBATCH --no-kill\n")));
}

TEST(BatchScript, GenericTemplateHasEveryDirective) {
  BatchSpec batch;
  batch.slurm_options = {{"time", "2:00:00"}, {"job-name", "my job"}, {"mail-user", "a@b"}};
  batch.sbatch_arguments = {"--constraint=v100"};
  batch.modules = {"gcc/8.3", "cuda"};
  batch.conda = "tf 2";
  EXPECT_EQ(batch_script(own("generic"), batch, gpu_shape(), kCommand)->text,
            R"SCRIPT(#!/bin/bash
# 16 ranks: 4 nodes × 4 GPUs, 40 CPUs per rank
#SBATCH --job-name="my job"
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=40
#SBATCH --time=2:00:00
#SBATCH --mail-user=a@b
#SBATCH --constraint=v100

module purge
module load gcc/8.3 cuda || exit 1
eval "$(conda shell.bash hook)" && conda deactivate && conda activate 'tf 2' || exit 1
exec hvdrun -np 16 -- python3 train.py --name 'a b'
)SCRIPT");
}

TEST(BatchScript, TemplatesOwnLineReplacesADirective) {
  const auto text = batch_script(own("cte-power"), {}, gpu_shape(), kCommand)->text;
  EXPECT_THAT(text, HasSubstr("#SBATCH --gres=gpu:4\n"));
  EXPECT_THAT(text, Not(HasSubstr("--gpus-per-node")));
  auto without_gpus = gpu_shape();
  without_gpus.gpus_per_node = 0;
  EXPECT_THAT(batch_script(own("cte-power"), {}, without_gpus, kCommand)->text,
              Not(HasSubstr("gres")));
}

TEST(BatchScript, RequestsTasksWithoutNodes) {
  auto shape = gpu_shape();
  shape.nodes.reset();
  shape.ranks_per_node.reset();
  shape.gpus_per_node = 0;
  const auto text = batch_script(own("generic"), {}, shape, kCommand)->text;
  EXPECT_THAT(text, HasSubstr("#SBATCH --ntasks=16\n"));
  EXPECT_THAT(text, Not(HasSubstr("--nodes")));
}

// A value that the script has outside of #SBATCH lines is not requested from sbatch by that.
TEST(BatchScript, OnlyASbatchLineReplacesADirective) {
  const auto script =
      parse_template(
          "---\nabout: x\n---\n#!/bin/bash\n# {{job_name}}\n{{#directives}}\n#SBATCH "
          "{{.}}\n{{/directives}}\nexport OMP_NUM_THREADS={{cpus_per_rank}}\n"
          "{{#command}}{{.}} {{/command}}\n",
          "t", "t.sbatch")
          .value();
  const auto made = batch_script(script, {}, gpu_shape(), kCommand).value();
  EXPECT_THAT(made.text, HasSubstr("#SBATCH --cpus-per-task=40\n"));
  EXPECT_THAT(made.text, HasSubstr("export OMP_NUM_THREADS=40\n"));
  BatchSpec batch;
  batch.container = "image.sif";
  EXPECT_THAT(batch_script(own("container"), batch, gpu_shape(), kCommand)->text,
              HasSubstr("#SBATCH --gpus-per-node=4\n"));
}

TEST(BatchScript, DefaultsNeedNoPlaceInTheTemplate) {
  const auto bare =
      parse_template(
          "---\nabout: x\n---\n#!/bin/bash\n#SBATCH -N {{nodes}} --ntasks-per-node="
          "{{ranks_per_node}} --gpus-per-node={{gpus_per_node}} -c {{cpus_per_rank}}\n"
          "{{#command}}{{.}} {{/command}}\n",
          "bare", "bare.sbatch")
          .value();
  BatchSpec batch;
  batch.comment = "hvdrun: x";
  batch.slurm_options = {{"job-name", "x", true}};
  EXPECT_TRUE(batch_script(bare, batch, gpu_shape(), kCommand));
  batch.slurm_options.front().is_own_idea = false;
  EXPECT_THAT(batch_script(bare, batch, gpu_shape(), kCommand).error().message,
              HasSubstr("--job-name: the template bare has no place for it"));
}

TEST(BatchScript, ContainerTemplateRunsEachRankInTheContainer) {
  BatchSpec batch;
  batch.container = "my image.sif";
  batch.variables = {{"bind", "/data,/scratch/a b"}};
  EXPECT_THAT(batch_script(own("container"), batch, gpu_shape(), kCommand)->text,
              HasSubstr("exec hvdrun -np 16 -- apptainer exec --nv --bind /data --bind "
                        "'/scratch/a b' 'my image.sif' python3 train.py --name 'a b'\n"));
}

TEST(BatchScript, OptionWithoutAPlaceInTheTemplateIsAnError) {
  BatchSpec batch;
  batch.container = "image.sif";
  EXPECT_THAT(batch_script(own("generic"), batch, gpu_shape(), kCommand).error().message,
              HasSubstr("--container: the template generic has no place for it ("));
  const auto bare = parse_template(
                        "---\nabout: x\n---\n#!/bin/bash\n#SBATCH -N {{nodes}} -n {{ranks}} "
                        "--ntasks-per-node={{ranks_per_node}} --gpus={{gpus_per_node}} "
                        "-c {{cpus_per_rank}}\n{{#command}}{{.}} {{/command}}\n",
                        "bare", "bare.sbatch")
                        .value();
  EXPECT_TRUE(batch_script(bare, {}, gpu_shape(), kCommand));
  BatchSpec with_time;
  with_time.slurm_options = {{"time", "10"}};
  EXPECT_EQ(
      batch_script(bare, with_time, gpu_shape(), kCommand).error().message,
      "--time: the template bare has no place for it (bare.sbatch): no #SBATCH line shows time, "
      "or directives");
}

}  // namespace
}  // namespace hvdrun
