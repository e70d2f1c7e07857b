#include "commands/sbatch.hpp"

#include "base/severity.hpp"
#include "cli/batch_command_line.hpp"
#include "cli/named_files.hpp"
#include "cli/nested_launcher.hpp"
#include "cli/program.hpp"
#include "cli/started_commands.hpp"
#include "commands/batch_request.hpp"
#include "commands/batch_script.hpp"
#include "commands/job_dependency.hpp"
#include "commands/requeue_request.hpp"
#include "commands/sbatch_line.hpp"
#include "commands/subcommand.hpp"
#include "commands/submit.hpp"
#include "common/file_content.hpp"
#include "common/shell_words.hpp"
#include "common/text.hpp"
#include "output/own_line.hpp"
#include "slurm/script_template.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

namespace hvdrun {
namespace {

constexpr auto kUsage = "hvdrun sbatch -np N program … (hvdrun sbatch --help says more)";

constexpr std::size_t kScriptStart = 65536;  // bytes in which a script has its directives

std::string template_for(const BatchSpec& batch) {
  if (!batch.template_name.empty()) return batch.template_name;
  if (!batch.container.empty()) return "container";
  return batch.requeue ? "requeue" : "generic";
}

constexpr auto kUnlessNodes = "; the job fails unless the nodes have it";

// Prints a warning for each folder that SLURM needs to start the job, and that is not here. SLURM
// makes none, and a job whose output has no folder fails without a word.
void warn_of_missing_folders(const BatchSpec& batch) {
  namespace fs = std::filesystem;
  const auto job_folder = folder_of_job(batch);
  for (const auto& option : batch.slurm_options) {
    const auto& name = option.name;
    const bool is_file = name == "output" || name == "error" || name == "input";
    if (!is_file && name != "chdir") continue;
    std::error_code error;
    const auto folder = is_file ? fs::path(option.value).parent_path() : fs::path(option.value);
    if (folder.empty() || folder.string().find('%') != std::string::npos ||
        fs::is_directory(job_folder / folder, error))
      continue;
    print_own_line(warning_text("--" + name + ": there is no folder " +
                                quote_if_needed(folder.string()) + " on this host" + kUnlessNodes));
  }
}

// Prints a warning if the program, its script or --venv cannot be found here. The nodes may still
// have it, and modules and the like may put it into PATH there. Error: the program is a file here
// that cannot be executed, and will not become one that can.
Result<void> check_files(const BatchSpec& batch, const std::vector<std::string>& command,
                         const JobSpec& job, const Environment& environment) {
  namespace fs = std::filesystem;
  if (!batch.container.empty()) return {};
  const auto& program = command.front();
  std::error_code error;
  const auto folder = folder_of_job(batch);
  const bool changes_path = !batch.modules.empty() || !batch.conda.empty() || !batch.venv.empty();
  const bool is_path = program.find('/') != std::string::npos;
  const bool is_file_here = fs::exists(folder / program, error);
  const auto found = cli::find_program(program, environment, folder, {"hvdrun sbatch …", {}});
  if (!found && is_file_here && (is_path || !changes_path)) return found.error();
  if (!found && is_path)
    print_own_line(warning_text(quote_if_needed(program) + " is not on this host" + kUnlessNodes));
  else if (!found && !changes_path)
    print_own_line(warning_text(found.error().message + kUnlessNodes));
  if (const auto missing = cli::find_missing_file(command, job, environment, folder)) {
    const auto& similar = missing->similar;
    const auto meant = similar.empty() ? "" : "; did you mean " + quote_if_needed(similar) + "?";
    if (missing->is_script)
      print_own_line(warning_text(quote_if_needed(missing->name) + " is not on this host" +
                                  kUnlessNodes + meant));
    else if (!changes_path)
      print_own_line(warning_text(missing->error.message + kUnlessNodes));
  }
  const auto activate = folder / batch.venv / "bin/activate";
  if (!batch.venv.empty() && batch.venv.find('$') == std::string::npos &&
      !fs::exists(activate, error))
    print_own_line(warning_text("--venv: " + quote_if_needed(activate.string()) +
                                " is not on this host" + kUnlessNodes));
  return {};
}

// Returns whether the file is a batch script. A file that cannot be read is none.
bool is_batch_script(const std::filesystem::path& file) {
  const auto start = content_of(file, kScriptStart);
  return start.starts_with("#!") && start.find("\n#SBATCH ") != std::string::npos;
}

// The user of sbatch knows -o as the file of the job's output.
Result<void> check_script_file(const std::filesystem::path& file) {
  const auto hint = "; -o writes the script, and --output names the file of the job's output";
  constexpr std::string_view kOutputs[] = {".out", ".log", ".err", ".txt"};
  const auto ending = file.extension().string();
  if (file.string().find('%') != std::string::npos ||
      std::find(std::begin(kOutputs), std::end(kOutputs), ending) != std::end(kOutputs))
    return fail("-o: a script cannot have the name " + quote(file.string()) + hint, kExitUsage);
  std::error_code error;
  if (std::filesystem::is_regular_file(file, error) && !std::filesystem::is_empty(file, error) &&
      !is_batch_script(file))
    return fail("-o: " + quote_if_needed(file.string()) +
                    " exists and is no batch script, so it is not overwritten" + hint,
                kExitUsage);
  return {};
}

// Returns which of the words is a batch script that would run: the first one, or the second after a
// shell.
std::optional<std::size_t> place_of_script(const std::vector<std::string>& command,
                                           const std::filesystem::path& folder) {
  if (is_batch_script(folder / command.front())) return 0;
  const bool after_shell = command.size() > 1 && cli::is_shell_alone({command.front()});
  if (after_shell && is_batch_script(folder / command[1])) return 1;
  return std::nullopt;
}

Result<void> check_program(const std::vector<std::string>& command, const cli::TypedJob& job,
                           const std::vector<std::string>& args) {
  HVD_CHECK(cli::check_command(command, kUsage + cli::taken_last(job.options, args)));
  // Before the launchers in it, because it is made to have one.
  if (const auto at = place_of_script(command, job.folder))
    return fail(quote_if_needed(command[*at]) +
                    " is a batch script already, which SLURM's sbatch submits: " +
                    sbatch_line(job.options, std::span(command).subspan(*at)),
                kExitUsage);
  HVD_TRY(const auto warning, cli::check_nested_launcher(command, job));
  if (!warning.empty()) print_own_line(warning_text(warning));
  return {};
}

Result<void> write_script(const std::filesystem::path& file, const std::string& script) {
  const auto cannot = "cannot write the script to " + file.string();
  FILE* const stream = std::fopen(file.c_str(), "we");
  if (stream == nullptr) return fail_errno(cannot, errno);
  const bool is_written = std::fwrite(script.data(), 1, script.size(), stream) == script.size();
  const int error = errno;
  // fclose() writes the buffer, so a full disk shows only here.
  if (std::fclose(stream) != 0) return fail_errno(cannot, errno);
  return is_written ? Result<void>() : fail_errno(cannot, error);
}

}  // namespace

Result<int> run_sbatch(const std::vector<std::string>& args, const Environment& environment) {
  std::optional<ScriptTemplate> script;
  const auto find_defaults = [&](const BatchSpec& batch) -> Result<std::vector<DefaultSetting>> {
    HVD_TRY(script, find_template(template_for(batch), batch, environment));
    return defaults_of(*script);
  };
  HVD_TRY(auto invocation, parse_batch_command_line("sbatch", args, environment, find_defaults));
  for (const auto& line : invocation.notes) print_own_line(line);
  if (invocation.action != BatchInvocation::Action::run) return print_text(invocation.text);
  if (invocation.command.empty() && !invocation.job.wrap.command.empty())
    return fail(
        "--wrap of hvdrun starts the program by another one, such as a profiler; give the program "
        "and its arguments after the options",
        kExitUsage);
  auto& batch = invocation.batch;
  HVD_CHECK(check_program(
      invocation.command,
      {invocation.job, invocation.uses, environment, folder_of_job(batch), "sbatch"}, args));
  HVD_CHECK(check_script_file(batch.script_file));
  HVD_CHECK(check_array_files(invocation.job, batch));
  warn_of_missing_folders(batch);
  HVD_CHECK(check_files(batch, invocation.command, invocation.job, environment));
  complete_request(batch, invocation.command);
  HVD_TRY(const auto doubts, check_requeue_request(batch, environment));
  for (const auto& line : doubts) print_own_line(line);
  const auto offer = ask_for_nodes(batch, environment);
  HVD_TRY(const auto shape, shape_of_request(invocation.job, batch, offer));
  HVD_CHECK(check_nodes(shape, offer));
  for (const auto& line : request_warnings(shape, invocation.job, batch, offer))
    print_own_line(line);
  for (const auto& line : dependency_warnings(batch, environment)) print_own_line(line);
  if (const auto line = missed_signal_warning(batch, shape, environment); !line.empty())
    print_own_line(line);
  HVD_TRY(const auto made,
          batch_script(*script, batch, shape, inner_command(invocation, shape, environment)));
  print_own_line(describe(shape));
  const bool to_stdout = batch.script_file.empty() || batch.script_file == "-";
  if (!to_stdout) {
    HVD_CHECK(write_script(batch.script_file, made.text));
    print_own_line("wrote " + quote_if_needed(batch.script_file.string()));
  }
  if (batch.test_only || batch.submit || batch.wait || batch.follow)
    return submit_script(made, batch, environment);
  return to_stdout ? print_text(made.text) : kExitOk;
}

}  // namespace hvdrun
