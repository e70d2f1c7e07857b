#include "cli/words.hpp"

#include "cli/foreign_options.hpp"
#include "cli/option_words.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace hvdrun::cli {
namespace {

bool is_option_word(std::string_view word) {
  return word.size() > 1 && word.front() == '-' && word != "--";
}

// Returns the option that was probably meant, with as many dashes as the prefix has. `letters`: see
// nearest_name().
std::string nearest_with(std::string_view prefix, std::string_view name, const OptionSet& options,
                         std::size_t letters) {
  std::vector<std::string_view> known;
  for (const auto table : options)
    for (const auto& option : table)
      for (const auto candidate : option.spellings)
        if (candidate.find_first_not_of('-') == prefix.size() && candidate.size() > 2)
          known.push_back(candidate.substr(prefix.size()));
  const auto nearest = nearest_name(name, known, letters);
  return nearest.empty() ? std::string() : std::string(prefix) + std::string(nearest);
}

// Returns the option that was probably meant, or an empty text. Nothing is like an option of one
// letter.
std::string nearest_option(std::string_view spelling, const OptionSet& options,
                           std::size_t letters) {
  if (spelling.size() < 3) return {};
  if (spelling.starts_with("--")) return nearest_with("--", spelling.substr(2), options, letters);
  const auto name = spelling.substr(1);
  auto nearest = nearest_with("-", name, options, letters);
  return nearest.empty() && name.size() > 2 ? nearest_with("--", name, options, letters) : nearest;
}

// Returns "--num-proc" for "--num_proc".
std::string with_dashes(std::string_view spelling) {
  std::string text(spelling);
  if (spelling.starts_with("--")) std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

bool is_known(std::string_view spelling, const OptionSet& options, bool is_batch) {
  return find_option_by_spelling(spelling, options) != nullptr ||
         find_foreign_option(spelling, is_batch) != nullptr;
}

// Returns the long spelling of "-bind-to", because mpirun and mpiexec take one dash for two.
// Returns the word itself if it is an option as it is, or if there is none of that name.
std::string with_two_dashes(std::string_view spelling, const OptionSet& options, bool is_batch) {
  std::string text(spelling);
  if (text.size() < 3 || text.starts_with("--") || is_known(text, options, is_batch)) return text;
  auto longer = with_dashes("-" + text);
  return is_known(longer, options, is_batch) ? longer : text;
}

// Returns whether a value may follow the option's short spelling without a blank. mpirun's and
// mpiexec's options begin with one dash, too: "-iface" is no file "face".
bool fits_directly(const Option& option, std::string_view value) {
  const bool starts_with_digit = std::isdigit(static_cast<unsigned char>(value.front())) != 0;
  if (option.kind == ValueKind::number || option.name == "time") return starts_with_digit;
  if (option.name == "ssh-identity-file") return value.find('/') != std::string_view::npos;
  return value.front() != '=';
}

// Returns whether "-m"'s next word is a value of SLURM's -m, --distribution, and no module.
bool is_distribution(std::string_view word) {
  const auto first = word.substr(0, word.find_first_of(":,="));
  constexpr std::string_view kWords[] = {"block", "cyclic", "plane", "arbitrary", "fcyclic"};
  return std::find(std::begin(kWords), std::end(kWords), first) != std::end(kWords);
}

// Returns whether mpirun would start another program after this word.
bool separates_programs(const std::vector<std::string>& words, std::size_t index) {
  return words[index] == ":" && index + 2 < words.size() && words[index + 1].size() > 1 &&
         words[index + 1].front() == '-' &&
         (find_option_by_spelling(words[index + 1]) != nullptr ||
          find_foreign_option(words[index + 1]) != nullptr);
}

// Returns the flag if the word is "--no-NAME", otherwise null.
const Option* find_negated_flag(std::string_view spelling, const OptionSet& options) {
  constexpr std::string_view kPrefix = "--no-";
  if (spelling.substr(0, kPrefix.size()) != kPrefix) return nullptr;
  const Option* option = find_option_by_name(spelling.substr(kPrefix.size()), options);
  return option != nullptr && option->kind == ValueKind::flag ? option : nullptr;
}

// Walks over the words of one command line.
class WordWalk {
 public:
  WordWalk(const std::vector<std::string>& args, const OptionSet& options, bool has_scheduler)
      : args_(args),
        options_(options),
        is_batch_(&options == &batch_options()),
        has_scheduler_(has_scheduler) {}

  Result<SplitWords> run() {
    if (!args_.empty() && args_.front() == "run") {
      words_.says_run = true;
      ++next_;
    }
    while (next_ < args_.size() && is_option_word(args_[next_])) {
      HVD_CHECK(take_option(args_[next_++]));
      if (ends_walk()) return std::move(words_);
    }
    const bool has_dashes = next_ < args_.size() && args_[next_] == "--";
    if (has_dashes) ++next_;
    words_.is_program_explicit = next_ > 0;
    words_.command.assign(args_.begin() + static_cast<std::ptrdiff_t>(next_), args_.end());
    if (!has_dashes) HVD_CHECK(check_one_program());
    if (is_module_ && !words_.command.empty())
      words_.command.insert(words_.command.begin(), {"python3", "-m"});
    words_.program_at = next_;
    // With a program, -v is that of mpirun and srun. Without one it prints the version.
    if (has_v_ && words_.command.empty()) {
      words_.action = find_option_by_name("version");
      words_.action_word = "-v";
      return std::move(words_);
    }
    HVD_CHECK(check_cores());
    return std::move(words_);
  }

 private:
  Result<void> take_option(std::string_view word) {
    if (word == "-v" && !is_horovodrun()) {
      has_v_ = true;
      return add(*find_option_by_name("verbose"), "-v", "1");
    }
    // "-np4", "-xNAME=VALUE": a value directly after an option with one dash.
    if (const auto* option = find_attached(word); option != nullptr)
      return add(*option, short_spelling(*option), word.substr(short_spelling(*option).size()));

    const auto equals = word.find('=');
    auto spelling = with_two_dashes(with_dashes(word.substr(0, equals)), options_, is_batch_);
    std::optional<std::string_view> attached;
    if (equals != std::string_view::npos) attached = word.substr(equals + 1);
    if (has_number(word)) {  // "-n2"
      spelling = word.substr(0, 2);
      attached = word.substr(2);
    }

    if (const auto* option = find_option_by_spelling(spelling, options_); option != nullptr)
      return take_own(*option, spelling, attached);
    if (const auto* option = find_foreign_option(spelling, is_batch_); option != nullptr)
      return take_foreign(*option, spelling, attached);
    if (const auto* option = find_negated_flag(spelling, options_); option != nullptr && !attached)
      return add(*option, spelling, "false");
    return unknown(spelling);
  }

  bool is_horovodrun() const { return !args_.empty() && args_.front() == "--horovod"; }

  // Returns whether the word is another launcher's option of one letter and a number.
  bool has_number(std::string_view word) const {
    if (word.size() < 3 || word[1] == '-' || std::isdigit(static_cast<unsigned char>(word[2])) == 0)
      return false;
    const auto* option = find_foreign_option(word.substr(0, 2), is_batch_);
    return option != nullptr && (option->takes_value || option->optional_value) &&
           find_foreign_option(word, is_batch_) == nullptr;
  }

  const Option* find_attached(std::string_view word) const {
    const auto name = word.substr(0, word.find('='));
    if (word[1] == '-' || is_known(with_two_dashes(name, options_, is_batch_), options_, is_batch_))
      return nullptr;
    for (const auto table : options_)
      for (const auto& option : table)
        if (is_attached(option, word)) return &option;
    return nullptr;
  }

  // Returns the spelling that a value may directly follow ("-np", "-t"), or an empty text.
  static std::string_view short_spelling(const Option& option) {
    for (const auto spelling : option.spellings)
      if (spelling.size() == 2 && spelling[0] == '-' && spelling[1] != '-') return spelling;
    const auto first = option.spellings.front();
    return first[1] == '-' ? std::string_view() : first;
  }

  static bool is_attached(const Option& option, std::string_view word) {
    const auto spelling = short_spelling(option);
    return !spelling.empty() && takes_value(option) && word.size() > spelling.size() &&
           word.starts_with(spelling) && fits_directly(option, word.substr(spelling.size()));
  }

  Result<void> take_own(const Option& option, std::string_view spelling,
                        std::optional<std::string_view> attached) {
    if (takes_value(option)) {
      HVD_TRY(const auto value, value_for(spelling, option.value_name, attached));
      return add(option, spelling, value);
    }
    if (attached) return takes_no_value(spelling);
    if (option.kind == ValueKind::action) {
      words_.action = &option;
      words_.action_word = spelling;
      return {};
    }
    return add(option, spelling, option.kind == ValueKind::count ? "1" : "true");
  }

  Result<void> take_foreign(const ForeignOption& option, std::string_view spelling,
                            std::optional<std::string_view> attached) {
    const std::string name(spelling);
    if (option.kind == ForeignOption::Kind::refused)
      return fail(refusal_of(option, name, has_scheduler_), kExitUsage);
    if (option.kind == ForeignOption::Kind::module) return take_module(name);
    if (option.kind == ForeignOption::Kind::flag && !attached) {
      const auto equals = option.text.find('=');
      return add(*find_option_by_spelling(option.text.substr(0, equals), options_), spelling,
                 option.text.substr(equals + 1));
    }
    std::string_view value;
    if (option.takes_value) {
      HVD_TRY(value, value_for(spelling, "value", attached));
    } else if (name == "--mpi") {  // srun's has a value, horovodrun's has none
      if (!attached && next_ < args_.size() && names_mpi(args_[next_])) ++next_;
    } else if (attached && !option.optional_value) {
      return takes_no_value(spelling);
    }
    if (option.kind == ForeignOption::Kind::same)
      return add(*find_option_by_spelling(option.text, options_), spelling, value);
    if (!option.text.empty())
      words_.notes.push_back(name +
                             " has no effect: " + std::string(answer_to(option, has_scheduler_)));
    return {};
  }

  // Returns whether the word is a value of srun's --mpi.
  static bool names_mpi(std::string_view word) {
    return word.starts_with("pmix") || word == "pmi2" || word == "none" || word == "openmpi";
  }

  // Remembers torchrun's -m: the first word after the options is a Python module.
  Result<void> take_module(const std::string& name) {
    if (next_ < args_.size() && is_distribution(args_[next_]))
      return fail(name + " names a Python module, as torchrun's does; for SLURM's --distribution " +
                      (is_batch_ ? "use --sbatch-arg=--distribution=" + args_[next_]
                                 : "use --map-by slot (block) or --map-by node (cyclic)"),
                  kExitUsage);
    is_module_ = true;
    return {};
  }

  Result<void> check_one_program() const {
    for (std::size_t i = 0; i < words_.command.size(); ++i)
      if (separates_programs(words_.command, i))
        return fail(
            "hvdrun starts one program on all ranks, and not another one after \":\"; let a script "
            "choose by $HVD_RANK: sh -c 'if [ $HVD_RANK = 0 ]; then exec ./a; else exec ./b; fi'; "
            "to pass \":\" to the program, put -- before its name",
            kExitUsage);
    return {};
  }

  // Returns the value after "=", or else the next word. If that word is itself an option, the value
  // was probably forgotten, which is an error. After "=" any value is accepted.
  Result<std::string_view> value_for(std::string_view spelling, std::string_view value_name,
                                     std::optional<std::string_view> attached) {
    if (attached) return *attached;
    const bool is_missing = next_ == args_.size() || args_[next_] == "--" ||
                            find_option_by_spelling(args_[next_], options_) != nullptr;
    if (!is_missing) return std::string_view(args_[next_++]);
    const std::string what =
        std::string(spelling) + " needs a value (" + std::string(value_name) + ")";
    if (next_ == args_.size()) return fail(what, kExitUsage);
    return fail(what + " before " + args_[next_], kExitUsage);
  }

  // Refuses a -c alone: mpirun's is the number of ranks, srun's the number of cores for each.
  Result<void> check_cores() const {
    if (is_batch_) return {};
    bool has_number = false;
    std::string cores;
    for (const auto& [option, spelling, value] : words_.options) {
      has_number |= option->name == "num-proc" || option->name == "ranks-per-host";
      if (spelling == "-c") cores = value;
    }
    if (cores.empty() || has_number) return {};
    return fail("-c means the number of ranks to mpirun, and the cores of each to srun: use -np " +
                    cores + " or --cpus-per-rank " + cores,
                kExitUsage);
  }

  Result<void> add(const Option& option, std::string_view spelling, std::string_view value) {
    words_.options.push_back({&option, std::string(spelling), std::string(value)});
    return {};
  }

  static Result<void> takes_no_value(std::string_view spelling) {
    return fail(std::string(spelling) + " takes no value", kExitUsage);
  }

  Result<void> unknown(std::string_view spelling) const {
    if (!is_batch_ && find_option_by_spelling(spelling, batch_options()) != nullptr)
      return fail(std::string(spelling) + " is an option of hvdrun sbatch", kExitUsage);
    const auto meant = [&](std::size_t letters) {
      const auto nearest = nearest_option(spelling, options_, letters);
      return nearest.empty() || speaks_of_another(spelling, nearest)
                 ? std::string()
                 : "; did you mean " + nearest + "?";
    };
    auto answer = meant(4);
    if (answer.empty()) answer = answer_by_words(spelling, options_, has_scheduler_);
    if (answer.empty()) answer = meant(3);
    if (answer.empty())
      answer =
          fmt::format("; hvdrun {}--help lists all, and the program's own options follow its name",
                      is_batch_ ? "sbatch " : "");
    return fail("unknown option " + quote_if_needed(spelling) + answer, kExitUsage);
  }

  bool ends_walk() const { return words_.action != nullptr && words_.action->name != "explain"; }

  const std::vector<std::string>& args_;
  const OptionSet& options_;
  const bool is_batch_;
  const bool has_scheduler_;
  std::size_t next_ = 0;
  bool is_module_ = false;
  bool has_v_ = false;
  SplitWords words_;
};

}  // namespace

std::string taken_text(std::string_view option, std::string_view value) {
  return "; " + std::string(option) + " took " + quote_if_needed(value) + " as its value";
}

std::string taken_last(const std::vector<ParsedOption>& options,
                       const std::vector<std::string>& words) {
  if (options.empty() || words.size() < 2) return {};
  const auto& [option, spelling, value] = options.back();
  const bool is_number = value.find_first_not_of("0123456789") == std::string::npos;
  const bool is_last = words.back() == value && words[words.size() - 2] == spelling;
  return is_last && !is_number ? taken_text(spelling, value) : std::string();
}

Result<SplitWords> split_words(const std::vector<std::string>& args, const OptionSet& options,
                               bool has_scheduler) {
  return WordWalk(args, options, has_scheduler).run();
}

std::string long_spelling(std::string_view typed) {
  return with_two_dashes(with_dashes(typed), run_options(), false);
}

}  // namespace hvdrun::cli
