#include "commands/scale_options.hpp"

#include "cli/foreign_options.hpp"
#include "cli/option_sets.hpp"
#include "cli/values.hpp"
#include "cli/words.hpp"
#include "commands/other_tools.hpp"
#include "commands/scale_numbers.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <regex>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using Value = std::string_view;

using cli::store;

constexpr int kMostSizes = 64;  // of a range

Result<std::vector<int>> parse_sizes(Value text, scale::Unit unit) {
  std::vector<int> sizes;
  for (;;) {
    const auto comma = text.find(',');
    const auto item = text.substr(0, comma);
    const auto dash = item.find('-', 1);  // "1-4"
    auto first = cli::parse_whole(item.substr(0, dash), 1);
    auto last = dash == Value::npos ? first : cli::parse_whole(item.substr(dash + 1), 1);
    for (const auto* end : {&first, &last})
      if (!*end)
        return with_context("needs numbers of " + scale::unit_name(unit) + " such as 1,2,4 or 1-4",
                            end->error());
    if (*last < *first || *last - *first >= kMostSizes)
      return fail(fmt::format("needs at most {} numbers of {}, from the first to the last, not {}",
                              kMostSizes, scale::unit_name(unit), quote(item)),
                  kExitUsage);
    for (int size = *first; size <= *last; ++size) sizes.push_back(size);
    if (comma == Value::npos) break;
    text.remove_prefix(comma + 1);
  }
  std::sort(sizes.begin(), sizes.end());
  if (const auto twice = std::adjacent_find(sizes.begin(), sizes.end()); twice != sizes.end())
    return fail(fmt::format("has {} twice", *twice), kExitUsage);
  return sizes;
}

Result<void> set_sizes(ScaleOptions& options, Value text, scale::Unit unit) {
  if (!options.sizes.empty() && options.unit != unit)
    return fail("does not go with the other one of -np and --devices", kExitUsage);
  options.unit = unit;
  return store(parse_sizes(text, unit), options.sizes);
}

Result<void> set_ranks(ScaleOptions& options, Value text) {
  return set_sizes(options, text, scale::Unit::ranks);
}

Result<void> set_pattern(Value text, std::optional<std::regex>& field) {
  return store(scale::parse_pattern(std::string(text)), field);
}

struct OwnOption {
  Value spelling;
  Result<void> (*apply)(ScaleOptions&, Value);
};

constexpr OwnOption kOwnOptions[] = {
    {"-np", set_ranks},
    {"--np", set_ranks},
    {"--num-proc", set_ranks},
    {"-n", set_ranks},
    {"--ntasks", set_ranks},
    {"--devices", [](ScaleOptions& o, Value v) { return set_sizes(o, v, scale::Unit::devices); }},
    {"--repeat", [](ScaleOptions& o, Value v) { return store(cli::parse_whole(v, 1), o.repeats); }},
    {"--drop-epochs",
     [](ScaleOptions& o, Value v) { return store(cli::parse_whole(v, 0), o.epochs_dropped); }},
    {"--report", [](ScaleOptions& o, Value v) { return store(cli::parse_path(v), o.folder); }},
    {"--metric", [](ScaleOptions& o, Value v) { return set_pattern(v, o.patterns.throughput); }},
    {"--epoch-time",
     [](ScaleOptions& o, Value v) { return set_pattern(v, o.patterns.epoch_seconds); }},
    {"--loss", [](ScaleOptions& o, Value v) { return set_pattern(v, o.patterns.loss); }},
    {"--accuracy", [](ScaleOptions& o, Value v) { return set_pattern(v, o.patterns.accuracy); }},
};

bool is_list_of_numbers(Value word) {
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) != 0 &&
         word.find_first_not_of("0123456789,-") == Value::npos;
}

std::string nearest_own_option(Value spelling) {
  std::vector<Value> known{"--submit", "--show-output"};
  for (const auto& own : kOwnOptions) known.push_back(own.spelling);
  return spelling.starts_with("--") ? std::string(nearest_name(spelling, known)) : std::string();
}

bool is_option_word(Value word) {
  return word.size() > 1 && word.front() == '-' && word != "--";
}

// Reads the words of one command line, from the first to the last.
class OptionsReader {
 public:
  explicit OptionsReader(const std::vector<std::string>& args) : args_(args) {}

  Result<ScaleOptions> run() {
    while (next_ < args_.size() && is_option_word(args_[next_])) {
      HVD_CHECK(take(args_[next_++]));
      if (options_.help) return std::move(options_);
    }
    if (options_.sizes.empty() && next_ < args_.size() && is_list_of_numbers(args_[next_]))
      HVD_CHECK(take_own(kOwnOptions[0], args_[next_++]));  // hvdrun scale 1,2,4 program
    if (next_ < args_.size() && args_[next_] == "--") ++next_;
    options_.command.assign(args_.begin() + static_cast<std::ptrdiff_t>(next_), args_.end());
    if (options_.sizes.empty())
      return fail("hvdrun scale needs the numbers of ranks to run with: -np 1,2,4", kExitUsage);
    if (options_.command.empty())
      return fail("hvdrun scale needs a program to run" +
                      (last_taken_.empty() ? "; hvdrun scale --help says more" : last_taken_),
                  kExitUsage);
    if (options_.submits && options_.folder.empty())
      return fail(
          "--submit needs --report DIR, a folder that the hosts share: the jobs write there",
          kExitUsage);
    if (!options_.submits && !of_sbatch_.empty())
      return fail(of_sbatch_ + " is an option of sbatch: it goes with --submit", kExitUsage);
    if (options_.submits && options_.shows_output)
      return fail("--show-output does not go with --submit; hvdrun follow JOB shows a job's output",
                  kExitUsage);
    return std::move(options_);
  }

 private:
  Result<void> take(Value word) {
    const auto equals = word.find('=');
    const Value spelling = word.substr(0, equals);
    std::optional<Value> attached;
    if (equals != Value::npos) attached = word.substr(equals + 1);
    if (word == "--help" || word == "-h") {
      options_.help = true;
      return {};
    }
    if (word == "--submit") {
      options_.submits = true;
      return {};
    }
    if (word == "--show-output") {
      options_.shows_output = true;
      return {};
    }
    for (const auto& own : kOwnOptions)
      if (own.spelling == spelling) return take_own(own, attached);
    // Reads "-np1,2,4", because hvdrun reads "-np4".
    if (word.starts_with("-np")) return take_own(kOwnOptions[0], word.substr(3));
    if (word.starts_with("-n") && word.size() > 2 && std::isdigit(word[2]) != 0)
      return take_own(kOwnOptions[0], word.substr(2));
    if (const auto other = option_of_other_tool("hvdrun scale", word, args_))
      return fail(
          fmt::format("{} is an option of {}: {}", other->option, other->tool, other->instead),
          kExitUsage);
    return take_hvdruns(word, spelling, attached.has_value());
  }

  Result<void> take_own(const OwnOption& own, std::optional<Value> attached) {
    if (!attached && (next_ == args_.size() || args_[next_] == "--"))
      return fail(std::string(own.spelling) + " needs a value", kExitUsage);
    const Value value = attached ? *attached : Value(args_[next_++]);
    last_taken_ = is_list_of_numbers(value) ? "" : cli::taken_text(own.spelling, value);
    auto applied = own.apply(options_, value);
    if (applied) return {};
    return fail(std::string(own.spelling) + " " + applied.error().message, kExitUsage);
  }

  Result<void> take_hvdruns(Value word, Value spelling, bool is_attached) {
    bool takes_value = false;
    if (const auto* const option = cli::find_option_by_spelling(spelling, cli::batch_options())) {
      if (option->kind == cli::ValueKind::action || option->name == "dry-run" ||
          option->group == cli::OptionGroup::submission || option->name == "output")
        return fail(std::string(spelling) + " makes no sense in a study; try it with hvdrun itself",
                    kExitUsage);
      if (option->apply_batch != nullptr && of_sbatch_.empty()) of_sbatch_ = spelling;
      takes_value = cli::takes_value(*option);
    } else if (const auto* const foreign = cli::find_foreign_option(spelling)) {
      takes_value = foreign->takes_value;
    } else if (const auto nearest = nearest_own_option(spelling); !nearest.empty()) {
      return fail("unknown option " + quote_if_needed(spelling) +
                      " of hvdrun scale; did you mean " + nearest + "?",
                  kExitUsage);
    } else if (spelling.starts_with("--")) {
      return fail(
          "unknown option " + quote_if_needed(spelling) +
              " of hvdrun scale; hvdrun scale --help lists its own, hvdrun --help the others",
          kExitUsage);
    }
    options_.job_options.emplace_back(word);
    if (takes_value && !is_attached && next_ < args_.size())
      options_.job_options.push_back(args_[next_++]);
    return {};
  }

  const std::vector<std::string>& args_;
  std::size_t next_ = 0;
  ScaleOptions options_;
  std::string of_sbatch_;   // the first option of sbatch, as typed
  std::string last_taken_;  // "; --report took ./train as its value", of the last own option
};

}  // namespace

Result<ScaleOptions> parse_scale_options(const std::vector<std::string>& args) {
  return OptionsReader(args).run();
}

std::string scale_help() {
  return R"(usage: hvdrun scale -np N,N,… [options] program [arguments…]

Runs the program with each of these numbers of ranks, one after the other, and
prints how long an epoch takes, samples per second, speed-up, efficiency, and the
final loss and accuracy.

  -np N,N,…           numbers of ranks: 1,2,4 or 1-4
  --devices N,N,…     in place of -np: numbers of GPUs, for a program that drives them
                      all from one process; CUDA_VISIBLE_DEVICES lists that many
  --repeat N          run each N times, all sizes in turn; figures are medians (1)
  --report DIR        write DIR/scaling.json, .csv, .svg and .html, and DIR/runs/ with
                      each run's report and output
  --drop-epochs N     leave out the first N epochs of a run (1)
  --show-output       show what the runs print, on stderr; without it only the last lines
                      of a run that failed are shown
  --submit            submit each run as a SLURM job of its own, all at once, and wait
                      for them; takes hvdrun sbatch's options, and needs --report
  --metric REGEX      take samples per second from the program's output: the number in
                      the expression's first group, on each line that matches
  --epoch-time REGEX  the same for the seconds that an epoch took
  --loss REGEX        the same for the final loss: the last line that matches
  --accuracy REGEX    the same for the final accuracy

In the program's arguments and in options, {np} is the number of the run: --batch {np}.

All other options are hvdrun's own and apply to each run. Without --metric and
--epoch-time the figures are those that the program reports through libhvd
(hvd.progress and hvd.set_metric; in C hvd_progress and hvd_set_metric).
)";
}

}  // namespace hvdrun
