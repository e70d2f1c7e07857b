// What the user asks SLURM for, with sbatch and salloc: a plain value, made from argv and the
// config files by cli/. What is asked of hvdrun itself is in JobSpec.
#pragma once

#include "slurm/script_template.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

// An option that goes to sbatch and salloc as it is: --NAME=VALUE.
struct SlurmOption {
  std::string name;
  std::string value;
  bool is_own_idea = false;  // hvdrun adds it; the user did not ask for it
};

struct BatchSpec {
  std::optional<int> nodes;
  std::optional<int> gpus_per_node;           // what a node has; 0: ranks without GPUs
  std::optional<int> cpus_per_node;           // what a node has, for its ranks to share
  std::optional<int> gpus_beside_cpus;        // what sinfo says of a node, if it gave the CPUs
  std::vector<SlurmOption> slurm_options;     // each name once
  std::vector<std::string> sbatch_arguments;  // --sbatch-arg in order
  bool requeue = false;
  std::string comment;  // what the job runs, for people who list jobs

  // What the script does before it starts hvdrun.
  std::vector<std::string> modules;
  std::string conda;
  std::string venv;
  std::string container;

  std::string template_name;  // empty: the one that fits the other options
  std::vector<std::filesystem::path> template_folders;
  std::vector<VariableSetting> variables;  // --set in order

  std::filesystem::path script_file;  // -o; empty: stdout
  bool submit = false;
  bool test_only = false;
  bool wait = false;
  bool follow = false;
};

}  // namespace hvdrun
