#include "cli/started_commands.hpp"

#include "base/is_one_of.hpp"
#include "cli/shell_text.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

namespace hvdrun::cli {
namespace {

// Wrappers in wrappers, and scripts that start scripts, are followed to this depth.
constexpr int kDeepest = 8;

// Some programs have operands of which the words do not show how many: packages, for example. Their
// program follows "--" or one of `starts`.
constexpr int kAnyNumber = -1;

// A program that starts the one that its words name. An option that is in none of the lists, such
// as "-x" or "--long", may have a value in the next word or not.
struct Wrapper {
  std::string_view name;
  std::string_view subcommands = {};  // of which one comes first: "run exec"; empty: none
  int operands = 0;                   // words of its own after its options, such as an image
  std::string_view values = {};       // options with a value in the next word
  std::string_view flags = {};        // options without
  std::string_view starts = {};       // options right before the program, as "--" is
};

constexpr std::string_view kCondaValues = "-n --name -p --prefix --cwd -e --env";
constexpr std::string_view kCondaFlags =
    "--no-capture-output --live-stream -v -vv --debug-wrapper-scripts --dev";
constexpr std::string_view kApptainerValues =
    "-B --bind --mount -H --home --pwd --cwd --env --env-file -W --workdir -S --scratch -o "
    "--overlay --network --network-args --hostname --dns --add-caps --drop-caps --security "
    "--fusemount --apply-cgroups --app --cpus --memory --nvccli-args";
constexpr std::string_view kApptainerFlags =
    "--nv --nvccli --rocm -c --contain -C --containall -e --cleanenv -i --ipc -p --pid -n --net -u "
    "--userns -f --fakeroot --uts -w --writable --writable-tmpfs --no-home --no-init --compat "
    "--no-privs --keep-privs --no-umask --no-eval --unsquash";
constexpr std::string_view kDockerValues =
    "-v --volume --mount -e --env --env-file -w --workdir -u --user --name --network --net "
    "--gpus --device --shm-size --ipc --pid --uts --userns --ulimit --cpus --cpuset-cpus -m "
    "--memory -p --publish --entrypoint --hostname -h --group-add --cap-add --cap-drop "
    "--security-opt --runtime -l --label --add-host --tmpfs --platform --pull --annotation";
constexpr std::string_view kDockerFlags =
    "--rm -i --interactive -t --tty -d --detach --init --privileged --read-only --env-host "
    "--no-healthcheck -P";

constexpr std::string_view kGdbValues = "-ex -x -iex -ix --command --eval-command";
constexpr std::string_view kGdbFlags = "-q -batch --batch --quiet -n";

constexpr Wrapper kWrappers[] = {
    {"env",
     {},
     0,
     "-u --unset -C --chdir",
     "-i --ignore-environment -v --debug",
     "-S --split-string"},
    {"nice", {}, 0, "-n --adjustment"},
    {"ionice", {}, 0, "-c --class -n --classdata", "-t --ignore"},
    {"chrt", {}, 1, "-T -P -D", "-f --fifo -r --rr -b --batch -o --other -i --idle -R -v -a"},
    {"nohup"},
    {"setsid", {}, 0, {}, "-w --wait -f --fork -c --ctty"},
    {"stdbuf", {}, 0, "-i --input -o --output -e --error"},
    {"unbuffer", {}, 0, {}, "-p"},
    {"time", {}, 0, "-o --output -f --format", "-p --portability -v --verbose -a --append -q"},
    {"timeout",
     {},
     1,
     "-k --kill-after -s --signal",
     "--foreground --preserve-status -v --verbose"},
    {"watch", {}, 0, "-n --interval", "-d -t -b -e -g -c -x -p --no-title --exec --precise"},
    {"xargs", {}, 0, "-n -I -P -L -s -d -a -E", "-0 --null -r -t -x -p"},
    {"flock", {}, 1, "-w --timeout -E", "-n --nonblock -x -e -s -o -u -F", "-c --command"},
    {"script", {}, kAnyNumber, {}, {}, "-c --command"},
    {"numactl",
     {},
     0,
     "-N -m -C -i -p --cpunodebind --membind --physcpubind --interleave --preferred",
     "-l --localalloc -a --all -b --balancing"},
    {"taskset", {}, 1, {}, "-c --cpu-list -a --all-tasks"},
    {"hwloc-bind", {}, 1, {}, "--strict --single -p -l --physical --logical --membind --cpubind"},
    {"likwid-pin", {}, 0, "-c -s -d", "-q -S"},
    {"likwid-perfctr", {}, 0, "-c -C -g -o -O -t -T -s", "-m -f"},
    {"prlimit"},
    {"setpriv", {}, 0, {}, "--no-new-privs --clear-groups --init-groups --keep-groups"},
    {"setarch", {}, 1, {}, "-R --addr-no-randomize"},
    {"sudo",
     {},
     0,
     "-u --user -g --group -D --chdir -h --host -p --prompt -T",
     "-E --preserve-env -H --set-home -n --non-interactive -S --stdin -k -b"},
    {"doas", {}, 0, "-u -C", "-n"},
    {"su", {}, kAnyNumber, {}, {}, "-c --command"},
    {"runuser", {}, kAnyNumber, {}, {}, "-c --command"},
    {"unshare", {}, 0, {}, "-m --mount -u --uts -i --ipc -n --net -p --pid -U -C -r -f --fork -c"},
    {"nsenter", {}, 0, "-t --target -S -G", "-m -u -i -n -p -U -C -a -F -r -w"},
    {"chroot", {}, 1},
    {"systemd-run",
     {},
     0,
     "-p --property -u --unit --slice -E --setenv --uid --gid --nice --working-directory -M",
     "--user --system --scope --pipe --wait -P -q --quiet -t --pty -d -G --collect"},
    {"cgexec", {}, 0, "-g", "--sticky"},
    {"firejail"},
    {"bwrap", {}, kAnyNumber},
    {"tini", {}, 0, "-p", "-s -v -vv -vvv -w -g"},
    {"dumb-init", {}, 0, "-r --rewrite", "-c --single-child -v --verbose"},
    {"catchsegv"},
    {"xvfb-run",
     {},
     0,
     "-n --server-num -s --server-args -e --error-file -f --auth-file -p --xauth-protocol -w",
     "-a --auto-servernum -l --listen-tcp"},
    {"dbus-run-session", {}, 0, "--config-file --dbus-daemon"},
    {"ssh",
     {},
     1,
     "-p -l -i -o -F -J -L -R -D -b -c -e -E -I -m -O -Q -S -w -W -B",
     "-t -tt -T -n -N -f -q -v -A -a -X -x -Y -4 -6 -C -g -K -k"},
    // Environments of Python and of other packages.
    {"uv", "run", 0,
     "--with --with-requirements --with-editable -p --python -P --extra --no-extra --group "
     "--no-group --only-group --env-file --directory --project --package --index --default-index "
     "-i --index-url --extra-index-url -f --find-links --cache-dir --config-file --color "
     "--resolution --prerelease --link-mode -C --config-setting --index-strategy "
     "--keyring-provider --upgrade-package --refresh-package --no-build-package "
     "--no-binary-package --exclude-newer --fork-strategy --python-platform",
     "--frozen --locked --no-sync --exact --isolated --no-project --no-config --offline --active "
     "--all-extras --all-groups --all-packages --no-dev --dev --only-dev --no-default-groups "
     "--no-editable --no-env-file -q --quiet -v --verbose -n --no-cache -U --upgrade --refresh "
     "--native-tls --no-progress --managed-python --no-managed-python --no-python-downloads "
     "--reinstall --no-index --no-build --no-binary --no-build-isolation --no-sources "
     "--compile-bytecode"},
    {"uvx", {}, 0, "--from --with -p --python --index --env-file", "-q --quiet --isolated -U"},
    {"pipx", "run", 0, "--spec --python --pip-args --with", "--no-cache --verbose -q"},
    {"poetry", "run", 0, "-C --directory -P --project", "-q -v -n"},
    {"pipenv", "run", 0, {}, "-q -v"},
    {"pdm", "run", 0, "-p --project --venv", "-s --site-packages -q -v -n"},
    {"hatch", "run"},
    {"rye", "run"},
    {"pixi", "run", 0, "-e --environment --manifest-path --color",
     "--frozen --locked -q -v --no-install --clean-env --as-is"},
    {"conda", "run", 0, kCondaValues, kCondaFlags},
    {"mamba", "run", 0, kCondaValues, kCondaFlags},
    {"micromamba", "run", 0, "-n --name -p --prefix --cwd -e --env -r --root-prefix", kCondaFlags},
    {"nix", "develop shell run", kAnyNumber, {}, {}, "-c --command"},
    {"nix-shell", {}, kAnyNumber, {}, {}, "--run --command"},
    {"guix", "shell environment", kAnyNumber},
    {"direnv", "exec", 1},
    {"dotenv", "run", 0, "-f --file", "--override --no-override"},
    // Containers.
    {"apptainer", "exec run", 1, kApptainerValues, kApptainerFlags},
    {"singularity", "exec run", 1, kApptainerValues, kApptainerFlags},
    {"podman", "run exec", 1, kDockerValues, kDockerFlags},
    {"podman-hpc", "run exec", 1, kDockerValues, "--rm -i -t --gpu --mpi --nccl --cuda-mpi"},
    {"docker", "run exec", 1, kDockerValues, kDockerFlags},
    {"nerdctl", "run exec", 1, kDockerValues, kDockerFlags},
    {"enroot", "start", 1, "-m --mount -e --env -c --conf", "-w --rw -r --root"},
    {"sarus", "run", 1, "--mount -w --workdir -e --env", "--mpi -t --tty"},
    {"shifter", {}, 1, "--image -i --volume -V --module -m --workdir -w --env -e"},
    {"ch-run", {}, 1, "-b --bind -c --cd --set-env -m", "-w --write --no-home -W"},
    {"uenv", "run", 1, "-v --view"},
    {"spack", "build-env", 1},
    // Debuggers and profilers.
    {"strace",
     {},
     0,
     "-o --output -e -p --attach -s --string-limit -u -E -a -b -I -O -S -P -X",
     "-f --follow-forks -ff -c -C -t -tt -ttt -T -y -yy -q -qq -v -i -k -r -x -xx -d"},
    {"ltrace", {}, 0, "-o -e -p -s -u -a -l -x -n -F", "-f -c -t -tt -T -S -i -r -C -L"},
    {"gdb", {}, 0, kGdbValues, kGdbFlags, "--args -args"},
    {"cuda-gdb", {}, 0, kGdbValues, kGdbFlags, "--args -args"},
    {"rocgdb", {}, 0, kGdbValues, kGdbFlags, "--args -args"},
    {"lldb", {}, 0, "-o -s -O -S -k -K", "-b --batch -Q"},
    {"rr", "record", 0, "-o --output-trace-dir -c -F -v", "-h --chaos -n"},
    {"valgrind"},
    {"heaptrack", {}, 0, "-o --output", "-r --raw"},
    {"perf", "record stat trace mem", 0,
     "-o --output -e --event -F --freq -C --cpu -c --count --call-graph -r --repeat -I -M -m",
     "-g -a -d -dd -v -q -s -T -W"},
    {"nsys", "profile launch", 0,
     "-o --output -t --trace -s --sample --stats -f --force-overwrite -c --capture-range -x "
     "--stop-on-exit -y --delay -d --duration -e --env-var -w --show-output -b --backtrace "
     "--cuda-memory-usage --cuda-graph-trace --gpu-metrics-devices --gpu-metrics-device "
     "--capture-range-end --cpuctxsw --kill --session-new --wait --nic-metrics --mpi-impl "
     "--python-sampling --python-backtrace --pytorch --trace-fork-before-exec --export -p"},
    {"ncu",
     {},
     0,
     "-o --export --set --section -k --kernel-name -c --launch-count -s --launch-skip --metrics "
     "--target-processes --replay-mode --clock-control --cache-control --page --log-file "
     "--config-file --nvtx-include --nvtx-exclude --kernel-id --devices --kernel-name-base",
     "-f --force-overwrite --nvtx --csv --import-source"},
    {"nvprof"},
    {"compute-sanitizer",
     {},
     0,
     "--tool --log-file --save --target-processes --leak-check --error-exitcode --print-limit"},
    {"cuda-memcheck", {}, 0, "--tool --log-file --save"},
    {"rocprof", {}, 0, "-i -o -d -t", "--stats --hip-trace --hsa-trace --sys-trace"},
    {"rocprofv2"},
    {"rocprofv3"},
    {"rocprof-sys-run"},
    {"omnitrace-run"},
    {"vtune"},
    {"advisor"},
    {"map", {}, 0, "-o --output -n -np", "--profile --connect"},
    {"ddt", {}, 0, "-n -np", "--connect --offline"},
    {"tau_exec", {}, 0, "-T", "-cuda -cupti -io -memory -ebs"},
    {"scorep"},
    {"hpcrun", {}, 0, "-e --event -o --output -r -ds", "-t --trace"},
    {"coverage", "run", 0, "--rcfile --source --omit --include --context --concurrency --data-file",
     "-p --parallel-mode --branch -a --append --timid --pylib -L"},
    {"memray", "run", 0, "-o --output --live-port", "-f --force -q --quiet --native --follow-fork"},
    {"py-spy", "record", 0, "-o --output -d --duration -r --rate -f --format -p --pid",
     "-s --subprocesses -n --native -i --idle -t --threads -g --gil -F --nonblocking"},
    {"debugpy", {}, 0, "--listen --connect --log-to", "--wait-for-client --configure-subProcess"},
    {"kernprof", {}, 0, "-o --outfile -s --setup -p", "-l --line-by-line -b --builtin -v --view"},
    {"pyinstrument",
     {},
     0,
     "-o --outfile -r --renderer -i --interval -p",
     "--show-all -t --timeline --html"},
    {"scalene", {}, 0, "--outfile --profile-all", "--cpu --gpu --memory --cli --json --html"},
    {"viztracer", {}, 0, "-o --output_file --output_dir --tracer_entries", "--log_multiprocess"},
    {"ipython"},
};

// Modules of Python that run the program after their options, and are no programs themselves.
constexpr Wrapper kModules[] = {
    {"cProfile", {}, 0, "-o --outfile -s --sort"},
    {"profile", {}, 0, "-o --outfile -s --sort"},
    {"pdb", {}, 0, "-c --command"},
    {"trace", {}, 0, "-f --file -C --coverdir --ignore-module --ignore-dir", "-t --trace -c -s -g"},
};
// And those that are.
constexpr std::string_view kToolModules = "coverage debugpy memray scalene viztracer kernprof";

constexpr std::array<std::string_view, 11> kShells{"sh",  "bash", "dash", "zsh",  "ksh",    "mksh",
                                                   "ash", "fish", "csh",  "tcsh", "busybox"};

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
  constexpr std::array<std::string_view, 2> kWithValue{"--rcfile", "--init-file"};
  bool has_text = false;
  std::size_t at = base_name(words.front()) == "busybox" ? 2 : 1;
  for (; at < words.size() && (is_option(words[at]) || words[at].starts_with('+')); ++at) {
    const auto& word = words[at];
    if (word.starts_with("--")) {
      has_text |= word == "--command";
      if (is_one_of(word, kWithValue)) ++at;
      continue;
    }
    has_text |= word.find('c') != std::string::npos;
    // Each "o" has its option in a word of its own: "-euo pipefail".
    at += static_cast<std::size_t>(std::count_if(
        word.begin(), word.end(), [](char letter) { return letter == 'o' || letter == 'O'; }));
  }
  return {at, has_text};
}

const Wrapper* find_wrapper(std::string_view name, std::span<const Wrapper> wrappers = kWrappers) {
  const auto at =
      std::ranges::find_if(wrappers, [&](const Wrapper& known) { return known.name == name; });
  return at == wrappers.end() ? nullptr : &*at;
}

// Returns the module of Python that runs a program, as a wrapper; nullptr if it is another.
const Wrapper* find_module(std::string_view name) {
  return find_wrapper(name, has_word(kToolModules, name) ? std::span(kWrappers)
                                                         : std::span<const Wrapper>(kModules));
}

// Returns whether the word after this option may be its value or not.
bool may_have_value(const Wrapper& wrapper, std::string_view word) {
  if (has_word(wrapper.flags, word) || word.find('=') != std::string_view::npos) return false;
  const bool is_letter = word.size() == 2 && std::isalpha(static_cast<unsigned char>(word[1])) != 0;
  return is_letter || word.starts_with("--");
}

class Follow {
 public:
  explicit Follow(const ReadScript& read_script) : read_script_(read_script) {}

  void take(const StartedCommand& command, int depth = 0) {
    if (command.words.empty() || depth > kDeepest) return;
    found_.push_back(command);
    const auto name = base_name(command.words.front());
    if (is_shell(name)) {
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
    bool follows_unknown = false;  // an option that may have a value or not
    bool is_unsure = false;        // one such came, so the program's place is not known
    for (; at < words.size(); ++at) {
      const auto& word = words[at];
      if (has_word(wrapper.values, word)) {
        ++at;
      } else if (word == "--" || has_word(wrapper.starts, word)) {
        operands = 0;
        follows_unknown = is_unsure = false;
      } else if (is_option(word)) {
        follows_unknown = may_have_value(wrapper, word);
        if (word == "-m" && follows_unknown) return add_module(command, at, is_unsure);
      } else if (!is_assignment(word) && operands != kAnyNumber) {
        const bool may_be_value = std::exchange(follows_unknown, false);
        is_unsure |= may_be_value;
        const bool is_operand = operands > 0 && !is_unsure;
        if (!is_operand) take_program(command, at, is_unsure, depth);
        if (!may_be_value && operands-- == 0) return;
      }
    }
  }

  // Follows the program of a wrapper, which is the word at this index, or a text for a shell.
  void take_program(const StartedCommand& command, std::size_t at, bool is_unsure, int depth) {
    auto inner = from(command, at);
    inner.is_certain &= !is_unsure;
    if (const auto& word = inner.words.front(); word.find(' ') != std::string::npos)
      take_text(inner, word, {}, {}, depth);
    take(inner, depth + 1);
  }

  // Adds `-m MODULE` of `uv run` and of tools for Python.
  void add_module(const StartedCommand& command, std::size_t at, bool is_unsure) {
    found_.push_back(from(command, at));
    found_.back().is_certain &= !is_unsure;
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
        if (at + 1 >= words.size()) return;
        const auto* const tool = find_module(words[at + 1]);
        if (tool != nullptr) take_wrapper(*tool, from(command, at + 1), depth);
        return;
      }
      if (words[at] == "-X" || words[at] == "-W")
        ++at;
      else if (!is_option(words[at]))
        return take(from(command, at), depth + 1);
    }
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

bool is_shell(std::string_view name) {
  return is_one_of(name, kShells);
}

bool is_shell_alone(const std::vector<std::string>& command) {
  return !command.empty() && is_shell(base_name(command.front())) &&
         base_name(command.front()) != "busybox" &&
         after_options_of_shell(command).first >= command.size();
}

bool is_wrapper(std::string_view name) {
  return is_shell(name) || find_wrapper(name) != nullptr;
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
