#include "commands/scale.hpp"

#include "cli/horovod_options.hpp"
#include "cli/option_sets.hpp"
#include "cli/values.hpp"
#include "commands/scale_measure.hpp"
#include "commands/scale_numbers.hpp"
#include "commands/scale_plot.hpp"
#include "commands/scale_runs.hpp"
#include "commands/scale_study.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

using Value = std::string_view;

using cli::store;

Result<std::vector<int>> parse_sizes(Value text) {
  std::vector<int> sizes;
  for (;;) {
    const auto comma = text.find(',');
    auto size = cli::parse_whole(text.substr(0, comma), 1);
    if (!size) return with_context("needs numbers of ranks such as 1,2,4", size.error());
    sizes.push_back(*size);
    if (comma == Value::npos) break;
    text.remove_prefix(comma + 1);
  }
  std::sort(sizes.begin(), sizes.end());
  if (const auto twice = std::adjacent_find(sizes.begin(), sizes.end()); twice != sizes.end())
    return fail(fmt::format("has {} twice", *twice), kExitUsage);
  return sizes;
}

Result<void> set_pattern(Value text, std::optional<std::regex>& field) {
  return store(scale::parse_pattern(std::string(text)), field);
}

struct OwnOption {
  Value spelling;
  Result<void> (*apply)(ScaleOptions&, Value);
};

constexpr OwnOption kOwnOptions[] = {
    {"-np", [](ScaleOptions& o, Value v) { return store(parse_sizes(v), o.sizes); }},
    {"--np", [](ScaleOptions& o, Value v) { return store(parse_sizes(v), o.sizes); }},
    {"--num-proc", [](ScaleOptions& o, Value v) { return store(parse_sizes(v), o.sizes); }},
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

bool is_option_word(Value word) {
  return word.size() > 1 && word.front() == '-' && word != "--";
}

// The walk over the words: one object a command line.
class Walk {
 public:
  explicit Walk(const std::vector<std::string>& args) : args_(args) {}

  Result<ScaleOptions> run() {
    while (next_ < args_.size() && is_option_word(args_[next_])) {
      HVD_CHECK(take(args_[next_++]));
      if (options_.help) return std::move(options_);
    }
    if (next_ < args_.size() && args_[next_] == "--") ++next_;
    options_.command.assign(args_.begin() + static_cast<std::ptrdiff_t>(next_), args_.end());
    if (options_.sizes.empty())
      return fail("hvdrun scale needs the numbers of ranks to run with: -np 1,2,4", kExitUsage);
    if (options_.command.empty())
      return fail("hvdrun scale needs a program to run; hvdrun scale --help says more", kExitUsage);
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
    // "-np1,2,4", as hvdrun's "-np4".
    if (word.starts_with("-np")) return take_own(kOwnOptions[0], word.substr(3));
    return take_hvdruns(word, spelling, attached.has_value());
  }

  Result<void> take_own(const OwnOption& own, std::optional<Value> attached) {
    if (!attached && (next_ == args_.size() || args_[next_] == "--"))
      return fail(std::string(own.spelling) + " needs a value", kExitUsage);
    const Value value = attached ? *attached : Value(args_[next_++]);
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
    } else if (const auto* const horovods = cli::find_horovod_option(spelling)) {
      takes_value = horovods->takes_value;
    }
    options_.job_options.emplace_back(word);
    if (takes_value && !is_attached && next_ < args_.size())
      options_.job_options.push_back(args_[next_++]);
    return {};
  }

  const std::vector<std::string>& args_;
  std::size_t next_ = 0;
  ScaleOptions options_;
  std::string of_sbatch_;  // the first option of sbatch, as typed
};

constexpr std::size_t kLastLines = 12;
constexpr const char* kInterrupted = "interrupted";

void say(const std::string& text) {
  std::fputs(("hvdrun scale: " + text).c_str(), stderr);
}

std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Where the runs' reports and output lie: in the study's folder, or in one that goes away.
class RunsFolder {
 public:
  static Result<RunsFolder> make(const std::filesystem::path& study) {
    std::error_code error;
    RunsFolder folder;
    if (!study.empty()) {
      folder.path_ = std::filesystem::absolute(study, error) / "runs";
      std::filesystem::create_directories(folder.path_, error);
      if (error)
        return fail("cannot make " + folder.path_.string() + ": " + error.message(), kExitUsage);
      return folder;
    }
    auto path = (std::filesystem::temp_directory_path(error) / "hvdrun-scale-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) return fail_errno("cannot make " + path, errno);
    folder.path_ = path;
    folder.goes_away_ = true;
    return folder;
  }
  RunsFolder(RunsFolder&& other) noexcept
      : path_(std::move(other.path_)), goes_away_(std::exchange(other.goes_away_, false)) {}
  RunsFolder& operator=(RunsFolder&&) = delete;
  RunsFolder(const RunsFolder&) = delete;
  RunsFolder& operator=(const RunsFolder&) = delete;
  ~RunsFolder() {
    std::error_code ignored;
    if (goes_away_) std::filesystem::remove_all(path_, ignored);
  }

  RunFiles files(int size, int repeat) const {
    const auto name = fmt::format("np{}-{}", size, repeat);
    return {path_ / (name + ".json"), path_ / (name + ".log"), path_ / (name + ".slurm")};
  }
  std::filesystem::path check() const { return path_ / "check.log"; }

 private:
  RunsFolder() = default;

  std::filesystem::path path_;
  bool goes_away_ = false;
};

// "0.213 s an epoch, 6750 samples/s, loss 0.0312".
std::string describe(const scale::Run& run) {
  if (!run.trouble.empty())
    return run.trouble == kInterrupted ? run.trouble : "failed: " + run.trouble;
  std::string text = run.epoch_seconds ? scale::seconds_text(*run.epoch_seconds) + " an epoch"
                                       : scale::seconds_text(run.wall_seconds);
  if (run.throughput) text += ", " + scale::significant(*run.throughput) + " samples/s";
  for (const auto& metric : run.metrics)
    text += ", " + metric.name + " " + scale::significant(metric.value);
  return text;
}

void show_last_lines(const std::string& output) {
  std::size_t begin = output.size();
  for (std::size_t lines = 0; begin > 0 && lines < kLastLines; ++lines) {
    const auto newline = begin < 2 ? std::string::npos : output.rfind('\n', begin - 2);
    begin = newline == std::string::npos ? 0 : newline + 1;
  }
  for (std::size_t at = begin; at < output.size();) {
    const auto end = std::min(output.find('\n', at), output.size());
    std::fputs(("  | " + printable(output.substr(at, end - at)) + "\n").c_str(), stderr);
    at = end + 1;
  }
}

bool can_show_blocks(const Environment& environment) {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string* const value = find_variable(environment, name);
    if (value == nullptr || value->empty()) continue;
    return value->find("UTF-8") != std::string::npos || value->find("utf8") != std::string::npos;
  }
  return false;
}

class StudyMaker {
 public:
  StudyMaker(const ScaleOptions& options, ScaleRuns& runs, const RunsFolder& folder)
      : options_(options), runs_(runs), folder_(folder) {}

  // What would not start is found before hours of training. The exit code of hvdrun that says so.
  Result<int> check() {
    if (options_.submits) return submit_all();
    for (const int size : options_.sizes) {
      HVD_TRY(const int code, runs_.check(size, folder_.check()));
      const auto output = read_file(folder_.check());
      std::error_code ignored;
      std::filesystem::remove(folder_.check(), ignored);
      if (code == kExitOk || runs_.stop_signal()) continue;
      std::fputs(output.c_str(), stderr);
      return code;
    }
    return kExitOk;
  }

  Result<scale::Study> run(const std::string& command) {
    scale::Study study;
    study.command = command;
    study.sizes = options_.sizes;
    study.repeats = options_.repeats;
    study.epochs_dropped = options_.epochs_dropped;
    const auto total = options_.sizes.size() * static_cast<std::size_t>(options_.repeats);
    std::size_t number = 0;
    // All sizes in turn, so that what changes on the machine meanwhile meets all of them.
    for (int repeat = 1; repeat <= options_.repeats; ++repeat) {
      for (const int size : options_.sizes) {
        ++number;
        if (study.interrupted || runs_.stop_signal()) {
          study.interrupted = true;
          continue;
        }
        if (has_failed(study, size) && !options_.submits) continue;
        begin(number, total, size);
        HVD_TRY(scale::Run run, run_once(size, repeat));
        end(run);
        study.interrupted = runs_.stop_signal().has_value();
        study.runs.push_back(std::move(run));
      }
    }
    cancel_left();
    return study;
  }

 private:
  // All at once, so that they wait in the queue side by side.
  Result<int> submit_all() {
    for (int repeat = 1; repeat <= options_.repeats; ++repeat) {
      for (const int size : options_.sizes) {
        const auto files = folder_.files(size, repeat);
        std::error_code ignored;
        std::filesystem::remove(files.report, ignored);  // of an earlier study
        auto job = runs_.submit(size, files);
        if (runs_.stop_signal()) return kExitOk;  // and nothing is run
        if (!job) {
          cancel_left();
          return with_context(plural(size, "rank"), std::move(job).error());
        }
        say(fmt::format("run {}, {}: job {}\n", jobs_.size() + 1, plural(size, "rank"), *job));
        jobs_[{repeat, size}] = std::move(*job);
      }
    }
    return kExitOk;
  }

  void cancel_left() {
    std::vector<std::string> left;
    for (const auto& [run, job] : jobs_) left.push_back(job);
    runs_.cancel(left, folder_.check());
    std::error_code ignored;
    std::filesystem::remove(folder_.check(), ignored);
    jobs_.clear();
  }

  Result<int> carry_out(int size, int repeat, const RunFiles& files) {
    if (!options_.submits) return runs_.run(size, files);
    const auto job = jobs_.find({repeat, size});
    HVD_TRY(const int code, runs_.follow(job->second, files));
    if (!runs_.stop_signal()) jobs_.erase(job);
    return code;
  }

  // It would fail again, and maybe only after hours.
  static bool has_failed(const scale::Study& study, int size) {
    return std::any_of(study.runs.begin(), study.runs.end(), [&](const scale::Run& run) {
      return run.size == size && !run.trouble.empty();
    });
  }

  void begin(std::size_t number, std::size_t total, int size) const {
    say(fmt::format("run {} of {}, {}:{}", number, total, plural(size, "rank"),
                    options_.shows_output ? "\n" : " "));
    std::fflush(stderr);
  }

  void end(const scale::Run& run) const {
    const auto text = describe(run) + "\n";
    if (options_.shows_output)
      say(text);
    else
      std::fputs(text.c_str(), stderr);
    const bool is_failure = !run.trouble.empty() && !stopped_;
    if (is_failure && !options_.shows_output)
      show_last_lines(read_file(folder_.files(run.size, run.repeat).output));
  }

  Result<scale::Run> run_once(int size, int repeat) {
    const RunFiles files = folder_.files(size, repeat);
    std::error_code ignored;
    if (!options_.submits) std::filesystem::remove(files.report, ignored);  // of an earlier study
    scale::Run run;
    run.size = size;
    run.repeat = repeat;
    HVD_TRY(run.exit_code, carry_out(size, repeat, files));
    stopped_ = runs_.stop_signal().has_value();
    if (stopped_)
      run.trouble = kInterrupted;
    else if (run.exit_code != kExitOk)
      run.trouble = fmt::format("exit code {}", run.exit_code);
    // Without a report hvdrun itself has failed, and its exit code says so.
    if (const auto report = read_file(files.report); !report.empty())
      HVD_CHECK(scale::measure_report(report, options_.epochs_dropped, run));
    if (options_.patterns.any())
      scale::measure_output(read_file(files.output), options_.patterns, options_.epochs_dropped,
                            run);
    return run;
  }

  const ScaleOptions& options_;
  ScaleRuns& runs_;
  const RunsFolder& folder_;
  std::map<std::pair<int, int>, std::string>
      jobs_;  // by repeat and size; those that have not ended
  bool stopped_ = false;
};

std::string command_line(const std::vector<std::string>& args) {
  std::string line = "hvdrun scale";
  for (const auto& word : args) line += " " + quote_if_needed(word);
  return line;
}

int exit_code_of(const scale::Study& study, std::optional<int> stop_signal) {
  if (stop_signal) return kExitSignalBase + *stop_signal;
  for (const auto& run : study.runs)
    if (run.exit_code != kExitOk) return run.exit_code;
  return kExitOk;
}

}  // namespace

Result<ScaleOptions> parse_scale_options(const std::vector<std::string>& args) {
  return Walk(args).run();
}

std::string scale_help() {
  return R"(usage: hvdrun scale -np N,N,… [options] program [arguments…]

Runs the program with each of these numbers of ranks, one after the other, and
prints how long an epoch takes, samples a second, speed-up, efficiency, and the
final loss and accuracy.

  -np N,N,…           numbers of ranks: 1,2,4
  --repeat N          run each so often, all sizes in turn; figures are medians (1)
  --report DIR        write DIR/scaling.json, .csv, .svg and .html, and DIR/runs/ with
                      each run's report and output
  --drop-epochs N     leave out the first N epochs of a run (1)
  --show-output       show what the runs print, on stderr; else only that of a run that
                      failed is shown, its last lines
  --submit            submit each run as a SLURM job of its own, all at once, and wait
                      for them; takes hvdrun sbatch's options, and needs --report
  --metric REGEX      take samples a second from the program's output: the number in
                      the expression's first group, on each line that matches
  --epoch-time REGEX  the same for the seconds that an epoch took
  --loss REGEX        the same for the final loss: the last line that matches
  --accuracy REGEX    the same for the final accuracy

All other options are hvdrun's own and hold for each run. Without --metric and
--epoch-time the figures are those that the program tells through libhvd
(hvd_set_epoch, hvd_add_samples, hvd_set_metric), see docs/scaling.md.
)";
}

Result<int> run_scale(const std::vector<std::string>& args, const Environment& environment) {
  HVD_TRY(const ScaleOptions options, parse_scale_options(args));
  if (options.help) {
    std::fputs(scale_help().c_str(), stdout);
    return std::fflush(stdout) == 0 ? kExitOk : kExitLauncher;
  }
  HVD_TRY(const RunsFolder folder, RunsFolder::make(options.folder));
  ScaleRuns runs(options.job_options, options.command, options.shows_output);
  StudyMaker maker(options, runs, folder);
  HVD_TRY(const int checked, maker.check());
  if (checked != kExitOk) return checked;
  HVD_TRY(const scale::Study study, maker.run(command_line(args)));
  const auto summary = scale::summarise(study);
  std::fputs(("\n" + scale::study_text(summary, can_show_blocks(environment))).c_str(), stdout);
  const bool is_shown = std::fflush(stdout) == 0;
  if (!options.folder.empty()) {
    HVD_CHECK(scale::write_study(study, summary, options.folder));
    say("the study is in " + (options.folder / "scaling.html").string() + "\n");
  }
  const int code = exit_code_of(study, runs.stop_signal());
  return code == kExitOk && !is_shown ? kExitLauncher : code;
}

}  // namespace hvdrun
