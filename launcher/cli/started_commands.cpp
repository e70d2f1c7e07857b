#include "cli/started_commands.hpp"

#include "cli/shell_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>
#include <utility>

namespace hvdrun::cli {
namespace {

// Wrappers in wrappers, and scripts that start scripts, are followed to this depth.
constexpr int kDeepest = 8;

// A program that starts the one that its words name.
struct Wrapper {
  std::string_view name;
  std::string_view subcommands = {};  // of which one comes first: "run exec"; empty: none
  int operands = 0;                   // words of its own after its options, such as an image
};

constexpr Wrapper kWrappers[] = {
    {"env"},
    {"nice"},
    {"ionice"},
    {"chrt", {}, 1},
    {"nohup"},
    {"setsid"},
    {"stdbuf"},
    {"unbuffer"},
    {"time"},
    {"timeout", {}, 1},
    {"watch"},
    {"xargs"},
    {"flock", {}, 1},
    {"script"},
    {"numactl"},
    {"taskset", {}, 1},
    {"hwloc-bind", {}, 1},
    {"likwid-pin"},
    {"likwid-perfctr"},
    {"prlimit"},
    {"setpriv"},
    {"setarch", {}, 1},
    {"sudo"},
    {"doas"},
    {"su"},
    {"runuser"},
    {"unshare"},
    {"nsenter"},
    {"chroot", {}, 1},
    {"systemd-run"},
    {"cgexec"},
    {"firejail"},
    {"bwrap", {}, 8},
    {"tini"},
    {"dumb-init"},
    {"catchsegv"},
    {"xvfb-run"},
    {"dbus-run-session"},
    {"ssh", {}, 1},
    // Environments of Python and of other packages.
    {"uv", "run"},
    {"uvx"},
    {"pipx", "run"},
    {"poetry", "run"},
    {"pipenv", "run"},
    {"pdm", "run"},
    {"hatch", "run"},
    {"rye", "run"},
    {"pixi", "run"},
    {"conda", "run"},
    {"mamba", "run"},
    {"micromamba", "run"},
    {"nix", "develop shell run"},
    {"nix-shell"},
    {"guix", "shell environment"},
    {"direnv", "exec", 1},
    {"dotenv", "run"},
    // Containers.
    {"apptainer", "exec run", 1},
    {"singularity", "exec run", 1},
    {"podman", "run exec", 1},
    {"podman-hpc", "run exec", 1},
    {"docker", "run exec", 1},
    {"nerdctl", "run exec", 1},
    {"enroot", "start", 1},
    {"sarus", "run", 1},
    {"shifter", {}, 1},
    {"ch-run", {}, 1},
    {"uenv", "run", 1},
    {"spack", "build-env", 1},
    // Debuggers and profilers.
    {"strace"},
    {"ltrace"},
    {"gdb"},
    {"cuda-gdb"},
    {"rocgdb"},
    {"lldb"},
    {"rr", "record"},
    {"valgrind"},
    {"heaptrack"},
    {"perf", "record stat trace mem"},
    {"nsys", "profile launch"},
    {"ncu"},
    {"nvprof"},
    {"compute-sanitizer"},
    {"cuda-memcheck"},
    {"rocprof"},
    {"rocprofv2"},
    {"rocprofv3"},
    {"rocprof-sys-run"},
    {"omnitrace-run"},
    {"vtune"},
    {"advisor"},
    {"map"},
    {"ddt"},
    {"tau_exec"},
    {"scorep"},
    {"hpcrun"},
    {"coverage", "run"},
    {"memray", "run"},
    {"py-spy", "record"},
    {"debugpy"},
    {"kernprof"},
    {"pyinstrument"},
    {"scalene"},
    {"viztracer"},
    {"ipython"},
};

constexpr std::array<std::string_view, 11> kShells{"sh",  "bash", "dash", "zsh",  "ksh",    "mksh",
                                                   "ash", "fish", "csh",  "tcsh", "busybox"};

// Modules of Python that run the program after their options.
constexpr std::array<std::string_view, 9> kPythonTools{
    "cProfile", "profile", "pdb", "trace", "coverage", "debugpy", "memray", "scalene", "viztracer"};

bool is_one_of(std::string_view word, const auto& list) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_option(std::string_view word) {
  return word.size() > 1 && word.front() == '-';
}

// Returns the words of a script's command with the script's own arguments for "$@".
std::vector<std::string> with_arguments(const std::vector<std::string>& words,
                                        const std::vector<std::string>& arguments) {
  std::vector<std::string> all;
  for (const auto& word : words) {
    if (word == "$@" || word == "$*" || word == "${@}")
      all.insert(all.end(), arguments.begin(), arguments.end());
    else
      all.push_back(word);
  }
  return all;
}

// Returns the index of the first word after a shell's options, and whether that is a text (-c).
std::pair<std::size_t, bool> after_options_of_shell(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 5> kWithValue{"-o", "+o", "-O", "--rcfile", "--init-file"};
  bool has_text = false;
  std::size_t at = base_name(words.front()) == "busybox" ? 2 : 1;
  for (; at < words.size() && (is_option(words[at]) || words[at].starts_with('+')); ++at) {
    const auto& word = words[at];
    has_text |=
        word == "--command" || (!word.starts_with("--") && word.find('c') != std::string::npos);
    if (is_one_of(word, kWithValue)) ++at;
  }
  return {at, has_text};
}

const Wrapper* find_wrapper(std::string_view name) {
  const auto* const at = std::find_if(std::begin(kWrappers), std::end(kWrappers),
                                      [&](const Wrapper& known) { return known.name == name; });
  return at == std::end(kWrappers) ? nullptr : at;
}

class Follow {
 public:
  explicit Follow(const ReadScript& read_script) : read_script_(read_script) {}

  void take(const StartedCommand& command, int depth = 0) {
    if (command.words.empty() || depth > kDeepest) return;
    found_.push_back(command);
    const auto name = base_name(command.words.front());
    if (is_one_of(name, kShells)) {
      take_shell(command, depth);
    } else if (name.starts_with("python")) {
      take_python(command, depth);
    } else if (const auto* const wrapper = find_wrapper(name); wrapper != nullptr) {
      take_wrapper(*wrapper, command, depth);
    } else if (command.words.front().find('/') != std::string::npos) {
      take_script(command, 0, depth);
    }
  }

  std::vector<StartedCommand> finish() { return std::move(found_); }

 private:
  // Returns the words from `at` on as a command of their own.
  static StartedCommand from(const StartedCommand& outer, std::size_t at) {
    StartedCommand inner = outer;
    const auto middle = outer.words.begin() + static_cast<std::ptrdiff_t>(at);
    inner.words.assign(middle, outer.words.end());
    inner.before.insert(inner.before.end(), outer.words.begin(), middle);
    return inner;
  }

  void take_text(const StartedCommand& outer, std::string_view text,
                 const std::vector<std::string>& arguments, const std::string& script, int depth) {
    for (const auto& [words, is_certain] : commands_of(text))
      take({with_arguments(words, arguments),
            {},
            true,
            script.empty() ? outer.script : script,
            outer.is_certain && is_certain},
           depth + 1);
  }

  void take_wrapper(const Wrapper& wrapper, const StartedCommand& command, int depth) {
    const auto& words = command.words;
    std::size_t at = 1;
    if (!wrapper.subcommands.empty()) {
      while (at < words.size() && !has_word(wrapper.subcommands, words[at])) ++at;
      ++at;
    }
    int operands = wrapper.operands;
    for (; at < words.size(); ++at) {
      const auto& word = words[at];
      if (word == "-m") add_module(command, at);
      if (is_assignment(word) || is_option(word)) continue;
      if (word.find(' ') != std::string::npos) take_text(command, word, {}, {}, depth);
      const bool may_be_value = is_option(words[at - 1]) && words[at - 1] != "--" &&
                                words[at - 1] != "--args" &&
                                words[at - 1].find('=') == std::string::npos;
      auto inner = from(command, at);
      inner.may_be_value = may_be_value || operands > 0;
      take(inner, depth + 1);
      if (!may_be_value && operands-- == 0) return;
    }
  }

  // Adds `-m MODULE` of `uv run` and of tools for Python.
  void add_module(const StartedCommand& command, std::size_t at) {
    found_.push_back(from(command, at));
    found_.back().words.insert(found_.back().words.begin(), "python3");
  }

  void take_shell(const StartedCommand& command, int depth) {
    const auto& words = command.words;
    const auto [at, has_text] = after_options_of_shell(words);
    if (at >= words.size()) return;
    if (!has_text) return take_script(command, at, depth);
    const auto arguments =
        words.begin() + static_cast<std::ptrdiff_t>(std::min(at + 2, words.size()));
    take_text(command, words[at], {arguments, words.end()}, {}, depth);
  }

  // Follows the script that is the word at this index; the words after it are its arguments.
  void take_script(const StartedCommand& command, std::size_t at, int depth) {
    const auto& file = command.words[at];
    const auto text = read_script_(file);
    if (!text) return;
    const auto arguments = command.words.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    take_text(command, *text, {arguments, command.words.end()}, file, depth);
  }

  void take_python(const StartedCommand& command, int depth) {
    const auto& words = command.words;
    for (std::size_t at = 1; at < words.size(); ++at) {
      if (words[at] == "-c") return;
      if (words[at] == "-m") {
        if (at + 1 < words.size() && is_one_of(words[at + 1], kPythonTools))
          take_tool(from(command, at + 1), depth);
        return;
      }
      if (words[at] == "-X" || words[at] == "-W")
        ++at;
      else if (!is_option(words[at]))
        return take(from(command, at), depth + 1);
    }
  }

  void take_tool(const StartedCommand& command, int depth) {
    const auto* const wrapper = find_wrapper(command.words.front());
    take_wrapper(wrapper == nullptr ? Wrapper{command.words.front()} : *wrapper, command, depth);
  }

  const ReadScript& read_script_;
  std::vector<StartedCommand> found_;
};

}  // namespace

std::vector<StartedCommand> started_commands(const std::vector<std::string>& command,
                                             const ReadScript& read_script) {
  Follow follow(read_script);
  follow.take({command, {}, false, {}, true});
  return follow.finish();
}

bool is_shell_alone(const std::vector<std::string>& command) {
  return !command.empty() && is_one_of(base_name(command.front()), kShells) &&
         base_name(command.front()) != "busybox" &&
         after_options_of_shell(command).first >= command.size();
}

bool is_wrapper(std::string_view name) {
  return is_one_of(name, kShells) || find_wrapper(name) != nullptr;
}

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const auto blank = std::min(list.find(' '), list.size());
    if (list.substr(0, blank) == word) return true;
    list.remove_prefix(std::min(blank + 1, list.size()));
  }
  return false;
}

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace hvdrun::cli
