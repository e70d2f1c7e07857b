#include "commands/scale.hpp"

#include "base/version.hpp"
#include "commands/scale_files.hpp"
#include "commands/scale_measure.hpp"
#include "commands/scale_numbers.hpp"
#include "commands/scale_options.hpp"
#include "commands/scale_runs.hpp"
#include "commands/scale_study.hpp"
#include "commands/scale_summary.hpp"
#include "commands/scale_table.hpp"
#include "common/file_content.hpp"
#include "common/text.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

constexpr std::size_t kLastLines = 12;
constexpr const char* kInterrupted = "interrupted";

void say(const std::string& text) {
  std::fputs(("hvdrun scale: " + text).c_str(), stderr);
}

std::string read_file(const std::filesystem::path& file) {
  return content_of(file, std::numeric_limits<std::size_t>::max());
}

// Owns the folder of the runs' reports and output. It is in the study's folder, or a temporary one
// that the destructor removes.
class RunsFolder {
 public:
  static Result<RunsFolder> make(const std::filesystem::path& study, scale::Unit unit) {
    std::error_code error;
    RunsFolder folder;
    folder.prefix_ = unit == scale::Unit::ranks ? "np" : "devices";
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
      : path_(std::move(other.path_)),
        prefix_(std::move(other.prefix_)),
        goes_away_(std::exchange(other.goes_away_, false)) {}
  RunsFolder& operator=(RunsFolder&&) = delete;
  RunsFolder(const RunsFolder&) = delete;
  RunsFolder& operator=(const RunsFolder&) = delete;
  ~RunsFolder() {
    std::error_code ignored;
    if (goes_away_) std::filesystem::remove_all(path_, ignored);
  }

  RunFiles files(int size, int repeat) const {
    const auto name = fmt::format("{}{}-{}", prefix_, size, repeat);
    return {path_ / (name + ".json"), path_ / (name + ".log"), path_ / (name + ".slurm")};
  }
  std::filesystem::path check() const { return path_ / "check.log"; }

 private:
  RunsFolder() = default;

  std::filesystem::path path_;
  std::string prefix_;  // of the files' names
  bool goes_away_ = false;
};

// "0.213 s an epoch, 6750 samples/s, loss 0.0312".
std::string describe(const scale::Run& run) {
  if (!run.failure.empty())
    return run.failure == kInterrupted ? run.failure : "failed: " + run.failure;
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

  // Checks all sizes, so that one that cannot start is found before hours of training. With
  // --submit this submits all runs instead. Returns kExitOk, or the exit code of the hvdrun that
  // failed the check.
  Result<int> check() {
    if (options_.submits) return submit_all();
    for (const int size : options_.sizes) {
      HVD_TRY(const int code, runs_.check(size, folder_.check()));
      const auto output = read_file(folder_.check());
      std::error_code ignored;
      std::filesystem::remove(folder_.check(), ignored);
      if (code == kExitOk || runs_.stop_signal()) continue;
      if (options_.unit == scale::Unit::devices) say(size_text(options_.unit, size) + ":\n");
      std::fputs(output.c_str(), stderr);
      return code;
    }
    return kExitOk;
  }

  Result<scale::Study> run(const std::string& command) {
    scale::Study study;
    study.command = command;
    study.date = date_;
    study.version = kVersion;
    study.unit = options_.unit;
    study.sizes = options_.sizes;
    study.repeats = options_.repeats;
    study.epochs_dropped = options_.epochs_dropped;
    const auto total = options_.sizes.size() * static_cast<std::size_t>(options_.repeats);
    std::size_t number = 0;
    // Runs all sizes in turn, so that changes on the machine meanwhile affect all of them.
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
  // Submits all runs at once, so that they wait in the queue side by side.
  Result<int> submit_all() {
    for (int repeat = 1; repeat <= options_.repeats; ++repeat) {
      for (const int size : options_.sizes) {
        const auto files = folder_.files(size, repeat);
        std::error_code ignored;
        std::filesystem::remove(files.report, ignored);  // of an earlier study
        auto job = runs_.submit(size, files);
        if (runs_.stop_signal()) return kExitOk;  // run() then runs nothing
        if (!job) {
          cancel_left();
          return with_context(scale::size_text(options_.unit, size), std::move(job).error());
        }
        say(fmt::format("run {}, {}: job {}\n", jobs_.size() + 1,
                        scale::size_text(options_.unit, size), *job));
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

  // Returns whether a run of that size failed. Another would fail again, perhaps only after hours.
  static bool has_failed(const scale::Study& study, int size) {
    return std::any_of(study.runs.begin(), study.runs.end(), [&](const scale::Run& run) {
      return run.size == size && !run.failure.empty();
    });
  }

  void begin(std::size_t number, std::size_t total, int size) const {
    say(fmt::format("run {} of {}, {}:{}", number, total, scale::size_text(options_.unit, size),
                    options_.shows_output ? "\n" : " "));
    std::fflush(stderr);
  }

  void end(const scale::Run& run) const {
    const auto text = describe(run) + "\n";
    if (options_.shows_output)
      say(text);
    else
      std::fputs(text.c_str(), stderr);
    const bool is_failure = !run.failure.empty() && !stopped_;
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
      run.failure = kInterrupted;
    else if (run.exit_code != kExitOk)
      run.failure = fmt::format("exit code {}", run.exit_code);
    // A run without a report is one in which hvdrun itself failed; the exit code shows that.
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
  const std::time_t date_ = std::time(nullptr);
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

Result<int> run_scale(const std::vector<std::string>& args, const Environment& environment) {
  HVD_TRY(const ScaleOptions options, parse_scale_options(args));
  if (options.help) {
    std::fputs(scale_help().c_str(), stdout);
    return std::fflush(stdout) == 0 ? kExitOk : kExitLauncher;
  }
  HVD_TRY(const RunsFolder folder, RunsFolder::make(options.folder, options.unit));
  ScaleRuns runs(options.unit, options.job_options, options.command, options.shows_output);
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
