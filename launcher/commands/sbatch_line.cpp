#include "commands/sbatch_line.hpp"

#include "base/is_one_of.hpp"
#include "common/shell_words.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

namespace hvdrun {
namespace {

using Renamed = std::pair<std::string_view, std::string_view>;

// Options that sbatch has under another name.
constexpr std::array kRenamed{Renamed{"num-proc", "ntasks"}, Renamed{"nnodes", "nodes"},
                              Renamed{"ranks-per-host", "ntasks-per-node"},
                              Renamed{"cpus-per-rank", "cpus-per-task"},
                              Renamed{"mail", "mail-user"}};
constexpr std::array<std::string_view, 14> kSame{
    "nodes", "gpus-per-node", "time",   "partition", "account", "qos",   "mem",
    "array", "dependency",    "signal", "job-name",  "output",  "error", "chdir"};
constexpr std::array<std::string_view, 3> kFlags{"requeue", "test-only", "wait"};

// Returns the option as sbatch takes it; "" if it has none.
std::string option_of_sbatch(const cli::ParsedOption& use) {
  const auto name = use.option->name;
  if (name == "sbatch-arg") return use.value;
  if (is_one_of(name, kFlags)) return use.value == "true" ? "--" + std::string(name) : "";
  if (is_one_of(name, kSame)) return "--" + std::string(name) + "=" + use.value;
  for (const auto& [ours, theirs] : kRenamed)
    if (ours == name)
      return "--" + std::string(theirs) + "=" +
             (name == "mail" ? use.value.substr(0, use.value.find(':')) : use.value);
  return {};
}

}  // namespace

std::string sbatch_line(const std::vector<cli::ParsedOption>& options,
                        std::span<const std::string> words) {
  constexpr std::array<std::string_view, 4> kSubmission{"--follow", "--submit", "--test-only",
                                                        "--wait"};
  std::vector<std::string> line{"sbatch"};
  bool follows = false;
  for (const auto& use : options) {
    follows |= use.option->name == "follow" && use.value == "true";
    if (auto text = option_of_sbatch(use); !text.empty()) line.push_back(std::move(text));
  }
  std::vector<std::string> script;
  for (const auto& word : words) {
    follows |= word == "--follow";
    if (script.empty() || !is_one_of(word, kSubmission))
      script.push_back(word);
    else if (word == "--test-only" || word == "--wait")
      line.push_back(word);
  }
  std::ranges::move(script, std::back_inserter(line));
  return common::shell_line(line) + (follows ? "; then hvdrun follow" : "");
}

}  // namespace hvdrun
