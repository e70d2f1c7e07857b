#include "cli/option_words.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hvdrun::cli {
namespace {

// Words that mean one thing, and hvdrun's option for it.
struct Subject {
  std::array<std::string_view, 8> words;
  std::string_view answer;
};

constexpr Subject kHost{{"host", "node", "machine", "server", "hostname", "nodelist"},
                        "for hosts: -H HOST,HOST or --hostfile FILE"};
constexpr std::string_view kHostsOfJob = "hvdrun finds the hosts of this job";
constexpr Subject kRank{{"rank", "proc", "process", "worker", "task", "np", "size", "slot"},
                        "for ranks: -np N"};
constexpr std::string_view kRanksPerHost = "for ranks on each host: --ranks-per-host K";
constexpr Subject kSubjects[] = {
    {{"ppn", "npernode"}, kRanksPerHost},
    {{"cpu", "core", "thread", "depth"}, "for the cores of each rank: --cpus-per-rank K"},
    {{"gpu", "device", "accelerator", "cuda"},
     "for GPUs: CUDA_VISIBLE_DEVICES=0,1 hvdrun …; each rank has one"},
    kRank,
    kHost,
    {{"elastic", "resilient", "tolerant"},
     "for a job that continues without lost ranks: --min-np M"},
    {{"profile", "profiler", "nsys"},
     "for a profile: --timeline-filename FILE, or a profiler with --wrap 'COMMAND'"},
    {{"omp", "openmp"}, "for the threads of each rank: -x OMP_NUM_THREADS=K"},
    {{"backend"}, "the program chooses it, as in init_process_group(\"nccl\")"},
    {{"framework"}, "hvdrun sets the variables of most; --for NAME those of some more"},
    {{"mem", "memory"},
     "for the memory of a batch job: hvdrun sbatch --mem SIZE; leave it out here"},
    {{"retry", "retrie", "attempt", "restart"}, "for new starts after a failure: --max-restarts R"},
    {{"bind", "binding", "pin", "pinning", "affinity"}, "for binding: --bind-to core|numa|none"},
    {{"env", "export", "variable", "var"}, "for variables: -x NAME=VALUE"},
    {{"log", "output", "redirect", "tee", "outdir"},
     "for a file of each rank: --output-filename DIR"},
    {{"user", "username", "login"}, "for the name to log in with: -H USER@HOST, or ~/.ssh/config"},
    {{"tag", "prefix"}, "for the labels of lines: --label TEMPLATE"},
    {{"timestamp"}, "for times before lines: --prefix-output-with-timestamp"},
    {{"rdzv", "rendezvous", "master", "coordinator"},
     "hvdrun connects the ranks, and sets MASTER_ADDR and MASTER_PORT"},
};

bool has(const Subject& subject, std::string_view word) {
  return !word.empty() && std::ranges::find(subject.words, word) != subject.words.end();
}

const Subject* subject_of(std::string_view word) {
  for (const auto& subject : kSubjects)
    if (has(subject, word)) return &subject;
  return nullptr;
}

std::string singular(std::string word) {
  if (word.size() > 4 && word.ends_with("sses")) return word.substr(0, word.size() - 2);
  if (word.size() > 3 && word.ends_with('s') && !word.ends_with("ss")) word.pop_back();
  return word;
}

// Words that say nothing without another one. "rs" is jsrun's resource set.
constexpr std::string_view kSmall[] = {"n",     "no",     "num", "number", "count", "total", "max",
                                       "min",   "per",    "of",  "to",     "for",   "with",  "use",
                                       "local", "global", "id",  "list",   "rs",    "enable"};

bool is_small(std::string_view word) {
  return std::ranges::find(kSmall, word) != std::end(kSmall);
}

// Returns the subject that all words are about. "--batch-size" is none: it is the program's.
const Subject* subject_of(const std::vector<std::string>& words) {
  const Subject* subject = nullptr;
  for (const auto& word : words) {
    if (is_small(word)) continue;
    const auto* const one = subject_of(word);
    if (one == nullptr) return nullptr;
    if (subject == nullptr) subject = one;
  }
  return subject;
}

// Returns hvdrun's options that have all of the words in their name or among their values, at most
// three.
std::vector<std::string> with_the_words(const std::vector<std::string>& words,
                                        const OptionSet& options) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string> found;
  if (std::ranges::all_of(words, is_small)) return found;
  for (const auto table : options)
    for (const auto& option : table) {
      auto theirs = words_of_option(option.name);
      if (option.value_name.find('|') != std::string_view::npos)  // "core|numa|none", not "TIME"
        for (auto& word : words_of_option(option.value_name)) theirs.push_back(std::move(word));
      const bool has_all = std::ranges::all_of(words, [&](const std::string& word) {
        return is_small(word) || std::ranges::find(theirs, word) != theirs.end();
      });
      if (has_all && found.size() < kMost)
        found.push_back((option.name.size() == 1 ? "-" : "--") + std::string(option.name));
    }
  return found;
}

}  // namespace

std::vector<std::string> words_of_option(std::string_view spelling) {
  std::vector<std::string> words(1);
  bool was_small = false;
  for (const char c : spelling) {
    const bool is_large = std::isupper(static_cast<unsigned char>(c)) != 0;
    const bool is_letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if ((!is_letter || (is_large && was_small)) && !words.back().empty()) words.emplace_back();
    if (is_letter) words.back() += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    was_small = is_letter && !is_large;
  }
  if (words.back().empty()) words.pop_back();
  for (auto& word : words) {
    word = singular(std::move(word));
    if (word.starts_with('n') && subject_of(word) == nullptr && subject_of(word.substr(1)))
      word.erase(0, 1);
  }
  return words;
}

bool speaks_of_another(std::string_view spelling, std::string_view known) {
  const auto typed = words_of_option(spelling);
  const auto theirs = words_of_option(known);
  if (subject_of(typed) != nullptr && theirs.size() > typed.size()) return true;
  const auto only_in = [](const auto& words, const auto& others) {
    std::vector<const Subject*> subjects;
    for (const auto& word : words)
      if (const auto* subject = subject_of(word);
          subject != nullptr && std::ranges::find(others, word) == others.end())
        subjects.push_back(subject);
    return subjects;
  };
  const auto meant = only_in(typed, theirs);
  const auto known_ones = only_in(theirs, typed);
  return std::ranges::any_of(meant, [&](const Subject* subject) {
    return std::ranges::any_of(known_ones, [=](const Subject* other) { return other != subject; });
  });
}

std::string answer_by_words(std::string_view spelling, const OptionSet& options,
                            bool has_scheduler) {
  const auto words = words_of_option(spelling);
  const bool is_long = spelling.starts_with("--") || spelling.size() > 3;
  if (!is_long) return {};
  const bool is_per_host =
      std::ranges::find(words, "per") != words.end() &&
      std::ranges::any_of(words, [](const auto& word) { return has(kHost, word); }) &&
      std::ranges::any_of(words, [](const auto& word) { return has(kRank, word); });
  if (is_per_host) return "; " + std::string(kRanksPerHost);
  const auto is_count = [&](std::string_view end) {
    return words.size() > 1 && words.front() == end &&
           std::ranges::all_of(words.begin() + 1, words.end(),
                               [](const auto& word) { return has(kRank, word) || is_small(word); });
  };
  if (is_count("min")) return "; for the least ranks of an elastic job: --min-np M";
  if (is_count("max")) return "; for the most ranks of an elastic job: --max-np X";
  if (const auto* subject = subject_of(words))
    return "; " + std::string(has_scheduler && subject->answer.find("-H ") != std::string_view::npos
                                  ? kHostsOfJob
                                  : subject->answer);
  const auto similar = with_the_words(words, options);
  return similar.empty() ? std::string()
                         : fmt::format("; did you mean {}?", fmt::join(similar, " or "));
}

}  // namespace hvdrun::cli
