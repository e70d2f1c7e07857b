#include "cli/parser.hpp"

#include "base/files.hpp"
#include "cli/config.hpp"
#include "cli/horovod.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

namespace hvdrun::cli {
namespace {

bool is_option_word(std::string_view word) {
  return word.size() > 1 && word.front() == '-' && word != "--";
}

std::string_view nearest_option(std::string_view spelling, const OptionSet& options) {
  std::vector<std::string_view> known;
  for (const auto table : options)
    for (const auto& option : table)
      for (const auto candidate : option.spellings)
        if (!candidate.empty()) known.push_back(candidate);
  return nearest_name(spelling, known);
}

// A flag's name where the word is "--no-NAME", else null.
const Option* find_negated_flag(std::string_view spelling, const OptionSet& options) {
  constexpr std::string_view kPrefix = "--no-";
  if (spelling.substr(0, kPrefix.size()) != kPrefix) return nullptr;
  const Option* option = find_option_by_name(spelling.substr(kPrefix.size()), options);
  return option != nullptr && option->kind == ValueKind::flag ? option : nullptr;
}

// The walk over the words: one object a command line.
class Walk {
 public:
  Walk(const std::vector<std::string>& args, const OptionSet& options)
      : args_(args), options_(options) {}

  Result<Words> run() {
    if (!args_.empty() && args_.front() == "run") ++next_;
    while (next_ < args_.size() && is_option_word(args_[next_])) {
      HVD_CHECK(take_option(args_[next_++]));
      if (ends_walk()) return std::move(words_);
    }
    if (next_ < args_.size() && args_[next_] == "--") ++next_;
    words_.command.assign(args_.begin() + static_cast<std::ptrdiff_t>(next_), args_.end());
    return std::move(words_);
  }

 private:
  Result<void> take_option(std::string_view word) {
    // "-np4", "-xNAME=VALUE": a value that stands right behind a one-dash name of ours.
    if (const auto* option = find_attached(word); option != nullptr)
      return add(*option, short_spelling(*option), word.substr(short_spelling(*option).size()));

    const auto equals = word.find('=');
    const auto spelling = word.substr(0, equals);
    std::optional<std::string_view> attached;
    if (equals != std::string_view::npos) attached = word.substr(equals + 1);

    if (const auto* option = find_option_by_spelling(spelling, options_); option != nullptr)
      return take_own(*option, spelling, attached);
    if (const auto* option = find_horovod_option(spelling); option != nullptr)
      return take_horovods(*option, spelling, attached);
    if (const auto* option = find_negated_flag(spelling, options_); option != nullptr && !attached)
      return add(*option, spelling, "false");
    return unknown(spelling);
  }

  const Option* find_attached(std::string_view word) const {
    if (word[1] == '-' || find_option_by_spelling(word, options_) || find_horovod_option(word))
      return nullptr;
    for (const auto table : options_)
      for (const auto& option : table)
        if (is_attached(option, word)) return &option;
    return nullptr;
  }

  // "-np", "-t": the one behind which a value may stand at once. Empty: none.
  static std::string_view short_spelling(const Option& option) {
    for (const auto spelling : option.spellings)
      if (spelling.size() == 2 && spelling[0] == '-' && spelling[1] != '-') return spelling;
    const auto first = option.spellings.front();
    return first[1] == '-' ? std::string_view() : first;
  }

  static bool is_attached(const Option& option, std::string_view word) {
    const auto spelling = short_spelling(option);
    return !spelling.empty() && takes_value(option) && word.size() > spelling.size() &&
           word.substr(0, spelling.size()) == spelling && word[spelling.size()] != '=';
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
      return {};
    }
    return add(option, spelling, option.kind == ValueKind::count ? "1" : "true");
  }

  Result<void> take_horovods(const HorovodOption& option, std::string_view spelling,
                             std::optional<std::string_view> attached) {
    const std::string name(spelling);
    if (!option.accepted) return fail(refusal_of(option, name), kExitUsage);
    if (option.takes_value) {
      HVD_CHECK(value_for(spelling, "value", attached));
    } else if (attached) {
      return takes_no_value(spelling);
    }
    words_.notes.push_back(name + " has no effect: " + std::string(option.reason));
    return {};
  }

  // The value behind "=", else the next word. A word that is itself an option is more likely one
  // whose value was forgotten before it; behind "=" anything goes.
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

  Result<void> add(const Option& option, std::string_view spelling, std::string_view value) {
    words_.options.push_back({&option, std::string(spelling), std::string(value)});
    return {};
  }

  static Result<void> takes_no_value(std::string_view spelling) {
    return fail(std::string(spelling) + " takes no value", kExitUsage);
  }

  Result<void> unknown(std::string_view spelling) const {
    std::string message = "unknown option " + quote_if_needed(spelling);
    const auto nearest = nearest_option(spelling, options_);
    message += nearest.empty() ? "; hvdrun --help lists all"
                               : "; did you mean " + std::string(nearest) + "?";
    return fail(message, kExitUsage);
  }

  bool ends_walk() const { return words_.action != nullptr && words_.action->name != "explain"; }

  const std::vector<std::string>& args_;
  const OptionSet& options_;
  std::size_t next_ = 0;
  Words words_;
};

std::vector<std::string> config_files_named(const std::vector<ParsedOption>& uses) {
  std::vector<std::string> files;
  for (const auto& use : uses)
    if (use.option->kind == ValueKind::config_file) files.push_back(use.value);
  return files;
}

// The command line's settings; --verbose --verbose is one setting of 2.
std::vector<Setting> settings_of(const std::vector<ParsedOption>& uses) {
  std::vector<Setting> settings;
  const ParsedOption* plural = nullptr;
  int count = 0;
  for (const auto& use : uses) {
    if (use.option->kind == ValueKind::count) {
      plural = &use;
      ++count;
    } else if (use.option->kind != ValueKind::config_file) {
      settings.push_back({use.option, use.value, "command line", use.spelling});
    }
  }
  if (plural != nullptr)
    settings.push_back({plural->option, std::to_string(count), "command line", plural->spelling});
  return settings;
}

// Of one place's settings -H counts and not --hostfile, in whichever order they stand; a later
// place overrides both.
std::vector<Setting> hosts_last(std::vector<Setting> settings, std::vector<std::string>& notes) {
  const auto named = [](std::string_view name) {
    return [name](const Setting& setting) { return setting.option->name == name; };
  };
  const auto hosts =
      std::stable_partition(settings.begin(), settings.end(), std::not_fn(named("hosts")));
  const auto file = std::find_if(settings.begin(), hosts, named("hostfile"));
  if (file != hosts && hosts != settings.end())
    notes.push_back(file->named + " has no effect: " + hosts->named + " names the hosts");
  return settings;
}

}  // namespace

Result<Words> split_words(const std::vector<std::string>& args, const OptionSet& options) {
  return Walk(args, options).run();
}

Result<GatheredSettings> gather_settings(const std::vector<ParsedOption>& uses,
                                         const Environment& environment,
                                         const std::filesystem::path& site_config_file) {
  GatheredSettings gathered;
  gathered.sources = config_sources(site_config_file, environment, config_files_named(uses));
  for (auto& source : gathered.sources) {
    HVD_TRY(auto config, read_config_source(source));
    for (auto& setting : hosts_last(std::move(config.settings), gathered.notes))
      gathered.settings.push_back(std::move(setting));
    std::move(config.notes.begin(), config.notes.end(), std::back_inserter(gathered.notes));
  }
  for (auto& setting : hosts_last(settings_of(uses), gathered.notes))
    gathered.settings.push_back(std::move(setting));
  return gathered;
}

Result<void> check_command(const std::vector<std::string>& command, const std::string& usage) {
  if (command.empty()) return fail("no program given; usage: " + usage, kExitUsage);
  for (const auto& word : command)
    if (word.find('\0') != std::string::npos)
      return fail("the program's arguments cannot hold a NUL character", kExitUsage);
  return {};
}

}  // namespace hvdrun::cli
