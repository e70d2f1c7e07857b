#include "cli/program.hpp"

#include "cli/option_sets.hpp"
#include "cli/shell_text.hpp"
#include "common/file_content.hpp"
#include "common/shell_words.hpp"
#include "common/text.hpp"
#include "model/device_choice.hpp"

#include <cerrno>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun::cli {
namespace {

enum class FileState { absent, folder, not_executable, executable };

// Returns whether this process may execute a file. faccessat(3) uses a system call of Linux 5.8,
// which older seccomp filters refuse with EPERM; a file's own permissions give EACCES.
bool may_execute(const std::filesystem::path& path) {
  if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) == 0) return true;
  return errno == EPERM && ::access(path.c_str(), X_OK) == 0;
}

FileState state_of(const std::filesystem::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0)
    return errno == EACCES ? FileState::not_executable : FileState::absent;
  if (S_ISDIR(status.st_mode)) return FileState::folder;
  return may_execute(path) ? FileState::executable : FileState::not_executable;
}

// Returns the usual interpreter of scripts with this name's ending, or an empty text.
std::string interpreter_for(const std::filesystem::path& path) {
  if (path.extension() == ".py") return "python3";
  if (path.extension() == ".sh") return "sh";
  return {};
}

// Returns the words that come before the first program in "A=1 B=2 python3 train.py", and removes
// them. A word in quotes ends them.
std::vector<std::string> take_assignments(std::string& text) {
  std::vector<std::string> assignments;
  std::string_view rest = text;
  while (true) {
    rest = rest.substr(std::min(rest.find_first_not_of(' '), rest.size()));
    const auto word = rest.substr(0, rest.find(' '));
    if (!is_assignment(word) || word.find_first_of("'\"\\") != std::string_view::npos) break;
    assignments.emplace_back(word);
    rest.remove_prefix(word.size());
  }
  text = rest.empty() ? std::string() : " " + std::string(rest);
  return assignments;
}

// Returns "; to set a variable: …" or the like if `name` is no program's name, or an empty text.
std::string hint_for_words(const std::string& name, const TypedLine& line) {
  if (is_assignment(name)) {
    auto after = line.after;
    auto all = take_assignments(after);
    all.insert(all.begin(), quote_for_shell(name));
    std::string choice;  // with -x all ranks would get the same GPUs
    std::string options;
    for (const auto& word : all)
      if (is_device_variable(word.substr(0, word.find('='))))
        choice += word + " ";
      else
        options += " -x " + word;
    const std::string purpose = !choice.empty()   ? "choose GPUs"
                                : all.size() == 1 ? "set a variable"
                                                  : "set variables";
    return "; to " + purpose + ": " + choice + line.before + options + after;
  }
  const auto blank = name.find(' ');
  if (blank != std::string::npos && blank > 0)
    return "; without the quotes: " + line.before + " " + name + line.after;
  if (line.after.empty()) return {};  // nothing could be meant for the program
  if (name.starts_with('='))
    return "; an option's value has no blanks around its \"=\": -x NAME=VALUE";
  if (name.find_first_not_of("0123456789") == std::string::npos)
    return "; to start " + name + " ranks: " + line.before + " -np " + name + line.after;
  for (const char* dashes : {"-", "--"})
    if (find_option_by_spelling(dashes + name) != nullptr)
      return "; did you mean " + line.before + " " + dashes + name + line.after + "?";
  return {};
}

Result<std::filesystem::path> refuse_to_run(const std::string& name,
                                            const std::filesystem::path& path, FileState state,
                                            const TypedLine& line) {
  if (state == FileState::absent)
    return fail(quote(name) + " does not exist" + hint_for_words(name, line), kExitNotFound);
  if (state == FileState::folder) return fail(quote(name) + " is a directory", kExitNotExecutable);
  if (state == FileState::executable) return path;
  const auto interpreter = interpreter_for(path);
  const auto shown = quote_for_shell(name);
  std::string message = quote(name) + " is not executable: chmod +x " + shown;
  if (!interpreter.empty())
    message += ", or " + line.before + " " + interpreter + " " + shown + line.after;
  return fail(message, kExitNotExecutable);
}

// Returns what to type if `name` is not in PATH, but a file in the working directory. Otherwise
// returns an empty text.
std::string hint_for_file_here(const std::string& name, const std::filesystem::path& path,
                               const TypedLine& line) {
  const auto state = state_of(path);
  if (state != FileState::executable && state != FileState::not_executable) return {};
  const auto interpreter = interpreter_for(path);
  const auto local = quote_for_shell("./" + name);
  std::string ways;
  if (state == FileState::executable) ways = line.before + " " + local + line.after;
  if (!interpreter.empty())
    ways += (ways.empty() ? "" : ", or ") + line.before + " " + interpreter + " " +
            quote_for_shell(name) + line.after;
  if (ways.empty()) ways = "chmod +x it, then " + line.before + " " + local + line.after;
  return "; there is " + local + " here: " + ways;
}

}  // namespace

Result<std::filesystem::path> find_program(const std::string& name, const Environment& environment,
                                           const std::filesystem::path& working_directory,
                                           const TypedLine& line) {
  if (name.empty()) return fail("the name of the program is empty", kExitNotFound);
  if (name.find('\0') != std::string::npos)
    return fail("the name of the program holds a NUL character", kExitNotFound);
  const auto here = working_directory / name;
  if (name.find('/') != std::string::npos) return refuse_to_run(name, here, state_of(here), line);

  const auto* path_variable = find_variable(environment, "PATH");
  std::string_view rest = "/bin:/usr/bin";
  if (path_variable != nullptr) rest = *path_variable;
  std::optional<std::filesystem::path> not_executable;
  while (true) {
    const auto colon = rest.find(':');
    const auto candidate = working_directory / rest.substr(0, colon) / name;
    const auto state = state_of(candidate);
    if (state == FileState::executable) return candidate;
    if (state == FileState::not_executable && !not_executable) not_executable = candidate;
    if (colon == std::string_view::npos) break;
    rest.remove_prefix(colon + 1);
  }
  if (not_executable)
    return refuse_to_run(not_executable->string(), *not_executable, FileState::not_executable,
                         line);
  auto hint = hint_for_file_here(name, here, line);
  if (hint.empty()) hint = hint_for_words(name, line);
  if (name == "python" && find_program("python3", environment, working_directory))
    hint = "; there is python3: " + line.before + " python3" + line.after;
  return fail("there is no program " + quote(name) + " in PATH" + hint, kExitNotFound);
}

Result<void> check_first_line(const std::string& name, const std::filesystem::path& program) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  constexpr std::size_t kStart = 256;
  const std::string text = content_of(program, kStart);
  const std::string_view start = text;
  const auto shown = quote_for_shell(name);
  if (start.starts_with(kMark) && start.substr(kMark.size()).starts_with("#!"))
    return fail(quote(name) +
                    " begins with a byte order mark, so its first line is not seen: sed -i "
                    "'1s/^\\xEF\\xBB\\xBF//' " +
                    shown,
                kExitNotExecutable);
  const auto line = start.substr(0, start.find('\n'));
  if (line.starts_with("#!") && line.ends_with('\r'))
    return fail(quote(name) +
                    " has Windows line ends (a carriage return ends its first line): sed -i "
                    "'s/\\r$//' " +
                    shown,
                kExitNotExecutable);
  return {};
}

Result<void> check_command(const std::vector<std::string>& command, const std::string& usage) {
  if (command.empty()) return fail("no program given; usage: " + usage, kExitUsage);
  for (const auto& word : command)
    if (word.find('\0') != std::string::npos)
      return fail("the program's arguments cannot hold a NUL character", kExitUsage);
  return {};
}

}  // namespace hvdrun::cli
