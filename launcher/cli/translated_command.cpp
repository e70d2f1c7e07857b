#include "cli/translated_command.hpp"

#include "base/is_one_of.hpp"
#include "cli/foreign_options.hpp"
#include "cli/option_sets.hpp"
#include "cli/words.hpp"
#include "common/shell_words.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun::cli {
namespace {

constexpr auto kNowhere = std::string_view::npos;
// Launchers whose program is a script of Python.
constexpr std::array<std::string_view, 5> kOfPython{"torchrun", "accelerate launch", "deepspeed",
                                                    "composer", "lightning"};
constexpr std::string_view kDigits = "0123456789";

// What an option of one launcher means, where the tables for all launchers say something else.
struct Meaning {
  std::string_view launcher;
  std::string_view spelling;
  std::string_view ours;  // hvdrun's option; empty: it has none
};
constexpr std::array kMeanings{
    Meaning{"mpirun", "-c", "-np"},
    Meaning{"mpiexec", "-c", "-np"},
    Meaning{"mpirun", "-N", "--ranks-per-host"},
    Meaning{"srun", "-N", "--nnodes"},
    Meaning{"srun", "-w", "-H"},
    Meaning{"srun", "--nodelist", "-H"},
    Meaning{"srun", "-x", "--exclude"},
    Meaning{"srun", "-p", ""},
    Meaning{"srun", "-i", ""},
    Meaning{"deepspeed", "-H", "--hostfile"},
    Meaning{"deepspeed", "-i", ""},
    Meaning{"deepspeed", "--include", ""},
    Meaning{"deepspeed", "-e", ""},
    Meaning{"deepspeed", "--exclude", ""},
    Meaning{"accelerate launch", "--config-file", ""},
    Meaning{"composer", "--world-size", ""},
    Meaning{"composer", "--base-rank", ""},
    Meaning{"lightning", "--devices", "-np"},
    Meaning{"lightning", "--num-nodes", "--nnodes"},
    Meaning{"lightning", "--accelerator", ""},
    Meaning{"lightning", "--strategy", ""},
    Meaning{"lightning", "--precision", ""},
    Meaning{"jsrun", "-p", "-np"},
    Meaning{"jsrun", "-g", ""},
    Meaning{"jsrun", "--gpu-per-rs", ""},
    Meaning{"jsrun", "--bind", ""},
    Meaning{"jsrun", "--latency-priority", ""},
    Meaning{"jsrun", "--launch-distribution", ""},
    Meaning{"jsrun", "-b", ""},
    Meaning{"jsrun", "-l", ""},
    Meaning{"aprun", "-N", "--ranks-per-host"},
    Meaning{"aprun", "-d", "--cpus-per-rank"},
    Meaning{"aprun", "-L", "-H"},
    Meaning{"aprun", "-cc", ""},
    Meaning{"aprun", "-j", ""},
    Meaning{"aprun", "-S", ""},
    Meaning{"aprun", "-m", ""},
    Meaning{"ibrun", "-o", ""},
    Meaning{"flux", "-N", "--nnodes"},
    Meaning{"flux", "--nodes", "--nnodes"},
    Meaning{"flux", "--cores-per-task", "--cpus-per-rank"},
    Meaning{"flux", "-g", ""},
    Meaning{"flux", "-t", ""},
    Meaning{"flux", "-o", ""},
    Meaning{"flux", "-q", ""},
    Meaning{"flux", "-B", ""},
    Meaning{"pbsdsh", "-n", ""},
    Meaning{"pbsdsh", "-z", "-H"},
    Meaning{"pbsdsh", "-w", "-H"},
};

// Options with two values that set a variable: their names, and what the variable's name begins
// with.
constexpr std::array kVariables{
    std::pair<std::string_view, std::string_view>{"--mca", "OMPI_MCA_"},
    std::pair<std::string_view, std::string_view>{"-genv", ""},
    std::pair<std::string_view, std::string_view>{"-env", ""},
};

// Options without a translation that have a value in the next word. Of others without "=" it is not
// known, so the program is not, either.
constexpr std::array<std::string_view, 30> kWithValue{"--host-discovery-script",
                                                      "--slots-per-host",
                                                      "--blacklist-cooldown-range",
                                                      "--mpi-args",
                                                      "--rdzv-backend",
                                                      "--rdzv-endpoint",
                                                      "--rdzv-id",
                                                      "--rdzv-conf",
                                                      "--node-rank",
                                                      "--master-addr",
                                                      "--master-port",
                                                      "--log-dir",
                                                      "--redirects",
                                                      "--tee",
                                                      "--role",
                                                      "--machine-rank",
                                                      "--main-process-ip",
                                                      "--main-process-port",
                                                      "--mixed-precision",
                                                      "--gpu-ids",
                                                      "--rankfile",
                                                      "--gres",
                                                      "--gpus-per-node",
                                                      "--gpus-per-task",
                                                      "--time",
                                                      "-t",
                                                      "--output",
                                                      "-o",
                                                      "--cpu-bind",
                                                      "--rank-by"};

std::optional<int> number_in(std::string_view text) {
  if (text.empty() || text.size() > 6 || text.find_first_not_of(kDigits) != kNowhere) return {};
  return std::stoi(std::string(text));
}

class Translation {
 public:
  Translation(std::string_view launcher, std::span<const std::string> words,
              const TypedPlace& place)
      : launcher_(launcher), words_(words), place_(place) {}

  TranslatedCommand run() {
    if (launcher_ == "lightning" && next_ < words_.size() && words_[next_] == "model") ++next_;
    while (next_ < words_.size() && !is_lost_ && words_[next_].size() > 1 &&
           words_[next_].front() == '-' && words_[next_] != "--")
      take_option(words_[next_++]);
    settle_counts();
    settle_sets();
    if (!has_count_ && !place_.has_count) options_.insert(options_.begin(), "-np N");
    if (launcher_ == "horovodrun") options_.insert(options_.begin(), "--horovod");
    if (launcher_ == "accelerate launch") options_.insert(options_.begin(), "--for accelerate");
    auto program = program_text();
    return {fmt::format("{}", fmt::join(options_, " ")), std::move(program), left_out_text(),
            has_count_, has_hosts_};
  }

 private:
  struct LeftOut {
    std::string name;
    std::string_view instead;
  };

  bool is_torchrun() const { return launcher_ == "torchrun"; }

  void take_option(const std::string& word) {
    const auto equals = word.find('=');
    auto spelling = long_spelling(std::string_view(word).substr(0, equals));
    std::optional<std::string> attached;
    if (equals != kNowhere) attached = word.substr(equals + 1);
    const auto digit = word.find_first_of(kDigits);
    if (word[1] != '-' && digit != kNowhere && digit >= 2 &&
        number_in(word.substr(digit))) {  // "-n2"
      spelling = word.substr(0, digit);
      attached = word.substr(digit);
    }
    if (const auto* const variable = variable_of(spelling); variable != nullptr)
      return take_variable(variable->second);
    if (auto* const count = count_of_sets(spelling); count != nullptr) {
      *count = attached ? *attached : next_word();
      return;
    }
    if (const auto* const option = option_of_job(spelling); option != nullptr)
      return take_own(spelling, takes_value(*option), attached);
    for (const auto& [launcher, known, ours] : kMeanings)
      if (launcher == launcher_ && known == spelling) return take_meant(spelling, ours, attached);
    if (is_torchrun() && (spelling == "--nnodes" || spelling == "--nproc-per-node")) {
      auto& count = spelling == "--nnodes" ? hosts_ : ranks_per_host_;
      count = attached ? *attached : next_word();
      return;
    }
    if (const auto* const option = find_option_by_spelling(spelling); option != nullptr)
      return take_own(spelling, takes_value(*option), attached);
    if (const auto* const option = find_foreign_option(spelling); option != nullptr)
      return take_foreign(*option, spelling, attached);
    leave_out(spelling, "", attached.has_value());
  }

  // Returns the option of hvdrun sbatch that srun has, too: of the job's resources.
  const Option* option_of_job(std::string_view spelling) const {
    if (!place_.is_batch || launcher_ != "srun") return nullptr;
    const auto* const option = find_option_by_spelling(spelling, batch_options());
    const bool is_of_job = option != nullptr && option->group == OptionGroup::resources;
    return is_of_job && option->name != "nodes" ? option : nullptr;
  }

  static const std::pair<std::string_view, std::string_view>* variable_of(std::string_view word) {
    const auto* const at = std::find_if(kVariables.begin(), kVariables.end(),
                                        [&](const auto& each) { return each.first == word; });
    return at == kVariables.end() ? nullptr : at;
  }

  void take_variable(std::string_view prefix) {
    const auto name = next_word();
    add("-x", fmt::format("{}{}={}", prefix, name, next_word()));
  }

  void take_meant(const std::string& spelling, std::string_view ours,
                  const std::optional<std::string>& attached) {
    const auto value = attached ? *attached : next_word();
    if (ours.empty())
      left_out_.push_back({spelling, ""});
    else
      add(ours, value);
  }

  void take_own(const std::string& spelling, bool has_value,
                const std::optional<std::string>& attached) {
    if (has_value) return add(spelling, attached ? *attached : next_word());
    options_.push_back(spelling);
  }

  void take_foreign(const ForeignOption& option, const std::string& spelling,
                    const std::optional<std::string>& attached) {
    using Kind = ForeignOption::Kind;
    switch (option.kind) {
      case Kind::same:
        return add(option.text, attached ? *attached : next_word());
      case Kind::flag: {
        const auto equals = option.text.find('=');
        const auto value = option.text.substr(equals + 1);
        if (equals == kNowhere || value == "true")
          options_.emplace_back(option.text.substr(0, equals));
        else
          add(option.text.substr(0, equals), value);
        return;
      }
      case Kind::module:
        is_module_ = true;
        return;
      case Kind::accepted:
        if (spelling == "--no-python") is_python_ = false;
        if (option.takes_value && !attached) next_word();
        return;
      case Kind::refused:
        return leave_out(spelling, answer_to(option, place_.finds_hosts), attached.has_value());
    }
  }

  // Notes an option that has no translation. The program is lost if a value may follow.
  void leave_out(const std::string& spelling, std::string_view instead, bool has_value) {
    left_out_.push_back({spelling, instead});
    if (has_value) return;
    if (is_one_of(spelling, kWithValue))
      next_word();
    else
      is_lost_ = next_ < words_.size() && !words_[next_].starts_with('-');
  }

  std::string next_word() { return next_ < words_.size() ? words_[next_++] : std::string("VALUE"); }

  std::string quoted(std::string_view word) const {
    return place_.in_script ? quote_with_variables(word) : quote_for_shell(word);
  }

  void add(std::string_view option, std::string_view value) {
    constexpr std::array<std::string_view, 6> kCounts{"-np",      "--np",     "--num-proc",
                                                      "--min-np", "--nnodes", "--ranks-per-host"};
    constexpr std::array<std::string_view, 3> kHosts{"-H", "--hosts", "--hostfile"};
    const bool is_count = is_one_of(option, kCounts);
    has_hosts_ |= is_one_of(option, kHosts);
    has_count_ |= is_count || has_hosts_;
    // A script's variable has no value where the line is typed.
    const bool is_unknown = is_count && place_.in_script && value.find('$') != kNowhere;
    auto text = fmt::format("{} {}", option, is_unknown ? "N" : quoted(value));
    if (option == "-np")  // where people look for it
      options_.insert(options_.begin(), std::move(text));
    else
      options_.push_back(std::move(text));
  }

  // Translates torchrun's numbers: of hosts, which may be a range, and of ranks on each.
  void settle_counts() {
    if (hosts_.empty() && ranks_per_host_.empty()) return;
    const auto colon = hosts_.find(':');
    const auto least = number_in(std::string_view(hosts_).substr(0, colon));
    const auto most =
        colon == kNowhere ? least : number_in(std::string_view(hosts_).substr(colon + 1));
    const auto each = ranks_per_host_.empty() ? std::optional<int>(1) : number_in(ranks_per_host_);
    if (hosts_.empty() || (least == 1 && most == 1)) {
      add("-np", each ? std::to_string(*each) : "N");
      return;
    }
    if (!place_.finds_hosts && !place_.has_hosts) options_.emplace_back("-H HOST,…");
    if (colon != kNowhere && least && most) {
      add("--min-np", each ? std::to_string(*least * *each) : "M");
      add("--max-np", each ? std::to_string(*most * *each) : "X");
    } else {
      add("--nnodes", hosts_);
      if (each) add("--ranks-per-host", std::to_string(*each));
    }
  }

  // Returns where a number of jsrun's resource sets belongs; null for other options.
  std::string* count_of_sets(std::string_view spelling) {
    if (launcher_ != "jsrun") return nullptr;
    if (spelling == "-n" || spelling == "--nrs") return &sets_.count;
    if (spelling == "-a" || spelling == "--tasks-per-rs") return &sets_.tasks;
    if (spelling == "-c" || spelling == "--cpu-per-rs") return &sets_.cores;
    if (spelling == "-r" || spelling == "--rs-per-host") return &sets_.per_host;
    return nullptr;
  }

  // Translates jsrun's numbers: each resource set has its tasks, which share its cores.
  void settle_sets() {
    const auto tasks = sets_.tasks.empty() ? std::optional<int>(1) : number_in(sets_.tasks);
    const auto of_all = [&](const std::string& sets, std::string_view unknown) {
      const auto number = number_in(sets);
      return number && tasks ? std::to_string(*number * *tasks) : std::string(unknown);
    };
    if (!sets_.per_host.empty()) add("--ranks-per-host", of_all(sets_.per_host, "K"));
    if (!sets_.count.empty()) add("-np", of_all(sets_.count, "N"));
    const auto cores = number_in(sets_.cores);
    if (cores && tasks && *tasks > 0)
      add("--cpus-per-rank", std::to_string(std::max(1, *cores / *tasks)));
    else if (!sets_.cores.empty())
      left_out_.push_back({"-c", ""});
  }

  // Returns the program with its arguments. After an option that is not understood, it is known
  // only if it is a Python script.
  std::string program_text() {
    if (!is_lost_ && next_ < words_.size() && words_[next_] == "--") ++next_;
    auto from = words_.begin() + static_cast<std::ptrdiff_t>(std::min(next_, words_.size()));
    if (is_lost_)
      from = std::find_if(from, words_.end(), [](const auto& word) {
        return word.ends_with(".py") && !word.starts_with('-');
      });
    if (from == words_.end()) return "program";
    std::vector<std::string> parts;
    const bool starts_scripts = is_one_of(launcher_, kOfPython);
    if (is_module_)
      parts.emplace_back("python3 -m");
    else if ((starts_scripts && is_python_) || is_lost_)
      parts.emplace_back("python3");
    for (; from != words_.end(); ++from) parts.push_back(quoted(*from));
    return fmt::format("{}", fmt::join(parts, " "));
  }

  std::string left_out_text() const {
    if (left_out_.empty()) return {};
    if (left_out_.size() == 1 && !is_lost_ && !left_out_.front().instead.empty())
      return fmt::format("{} ({})", left_out_.front().name, left_out_.front().instead);
    std::vector<std::string> names;
    for (const auto& each : left_out_) names.push_back(each.name);
    if (is_lost_) names.emplace_back("what follows it");
    const auto last = std::move(names.back());
    names.pop_back();
    return names.empty() ? last : fmt::format("{} and {}", fmt::join(names, ", "), last);
  }

  const std::string_view launcher_;
  const std::span<const std::string> words_;
  const TypedPlace place_;
  std::size_t next_ = 0;
  bool is_lost_ = false;  // an option is not understood, and the next word may be its value
  bool is_module_ = false;
  bool is_python_ = true;
  bool has_count_ = false;
  bool has_hosts_ = false;
  struct Sets {  // of resources; each number as it was typed
    std::string count;
    std::string tasks;  // in each, as are the cores
    std::string cores;
    std::string per_host;
  };
  Sets sets_;                   // jsrun's
  std::string hosts_;           // torchrun's --nnodes
  std::string ranks_per_host_;  // torchrun's --nproc-per-node
  std::vector<std::string> options_;
  std::vector<LeftOut> left_out_;
};

}  // namespace

TranslatedCommand translated_command(std::string_view launcher, std::span<const std::string> words,
                                     const TypedPlace& place) {
  return Translation(launcher, words, place).run();
}

}  // namespace hvdrun::cli
