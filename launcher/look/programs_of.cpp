#include "look/programs_of.hpp"

#include "look/proc_files.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <string_view>

namespace hvdrun {
namespace {

// A chain of programs that start others is followed to this depth.
constexpr int kDeepest = 8;
constexpr std::size_t kMostPrograms = 4;

// Programs that start the one that follows on their command line, or in their script.
constexpr auto kStarters = std::to_array<std::string_view>(
    {"sh",        "bash",     "dash",       "zsh",       "ksh",          "fish",     "busybox",
     "env",       "timeout",  "time",       "nice",      "nohup",        "numactl",  "taskset",
     "setsid",    "stdbuf",   "sudo",       "su",        "uv",           "poetry",   "pipenv",
     "conda",     "mamba",    "micromamba", "gdb",       "strace",       "ltrace",   "perf",
     "nsys",      "ncu",      "heaptrack",  "apptainer", "starter-suid", "starter",  "singularity",
     "enroot",    "tini",     "dumb-init",  "catchsegv", "xvfb-run",     "torchrun", "accelerate",
     "deepspeed", "catatonit"});

// Modules that `python -m` runs, or scripts, that start a program and wait for it.
constexpr auto kModules = std::to_array<std::string_view>(
    {"torch.distributed.run", "torch.distributed.launch", "torch.distributed.elastic",
     "accelerate.commands.launch", "deepspeed.launcher.launch", "deepspeed.launcher.runner",
     "torchrun", "accelerate", "deepspeed"});

template <std::size_t count>
bool has(const std::array<std::string_view, count>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> words_of(pid_t pid) {
  std::istringstream text(read_proc(pid, "cmdline"));
  std::vector<std::string> words;
  for (std::string word; std::getline(text, word, '\0');) words.push_back(std::move(word));
  return words;
}

// Returns the children that have not ended.
std::vector<pid_t> living_children(pid_t pid) {
  auto children = children_of(pid);
  std::erase_if(children, [](pid_t child) {
    const auto stat = read_stat(child);
    return !stat || stat->state == 'Z' || stat->state == 'X';
  });
  return children;
}

// Returns whether one of the process's two names says so: a script that is itself the program has
// the script's name, and the shell's executable.
bool only_starts_others(pid_t pid, const std::string& name) {
  const auto words = words_of(pid);
  const auto executable = std::filesystem::path(read_proc_link(pid, "exe")).filename().string();
  return starts_others(name, words) || starts_others(executable, words);
}

void follow(pid_t pid, int depth, std::vector<pid_t>& programs) {
  if (programs.size() >= kMostPrograms) return;
  const auto stat = read_stat(pid);
  if (!stat) return;
  const auto children = depth < kDeepest ? living_children(pid) : std::vector<pid_t>();
  if (children.empty() || !only_starts_others(pid, stat->name)) {
    programs.push_back(pid);
    return;
  }
  for (const pid_t child : children) follow(child, depth + 1, programs);
}

}  // namespace

bool starts_others(const std::string& name, const std::vector<std::string>& words) {
  if (has(kStarters, name)) return true;
  const bool is_python = name.starts_with("python") || name.starts_with("pt_main_thread");
  if (!is_python) return false;
  for (std::size_t index = 1; index < words.size(); ++index) {
    if (words[index] == "-m") return index + 1 < words.size() && has(kModules, words[index + 1]);
    if (words[index] == "-c") return false;
    if (words[index].starts_with("-")) continue;
    return has(kModules, std::filesystem::path(words[index]).filename().string());
  }
  return false;
}

std::vector<pid_t> programs_of(pid_t pid) {
  std::vector<pid_t> programs;
  follow(pid, 0, programs);
  if (programs.empty()) programs.push_back(pid);
  return programs;
}

}  // namespace hvdrun
