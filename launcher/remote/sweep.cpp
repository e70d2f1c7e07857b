#include "remote/sweep.hpp"

#include "agent/job_folders.hpp"
#include "agent/process_tree.hpp"
#include "base/result.hpp"
#include "remote/remote_agent.hpp"

#include <charconv>
#include <chrono>
#include <filesystem>

#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::chrono::seconds kPatience{10};

}  // namespace

std::vector<std::string> sweep_words(const std::string& job_id,
                                     const std::vector<std::size_t>& agents) {
  std::vector<std::string> words{std::string(kAgentArgument), std::string(kSweepArgument), job_id};
  for (const auto agent : agents) words.push_back(std::to_string(agent));
  return words;
}

bool sweep(const std::string& job_id, std::size_t agent) {
  const auto folders = JobFolders::of(job_id, agent);
  // Who has ended in good order has removed them last of all.
  if (!std::filesystem::exists(folders.temporary) && !std::filesystem::exists(folders.shared))
    return true;
  const auto left = kill_job_processes(::getpid(), folders.cookie(), kPatience);
  folders.sweep();
  return left.empty();
}

int run_sweep(const std::vector<std::string>& arguments) {
  if (arguments.empty() || !is_job_id(arguments.front())) return kExitUsage;
  bool all = true;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string& digits = arguments[i];
    std::size_t agent = 0;
    const char* const end = digits.data() + digits.size();
    const auto [parsed, error] = std::from_chars(digits.data(), end, agent);
    if (error != std::errc() || parsed != end) return kExitUsage;
    all = sweep(arguments.front(), agent) && all;
  }
  return all ? kExitOk : kExitLauncher;
}

}  // namespace hvdrun
