#include "completion_text.hpp"

#include "cli/batch_options.hpp"
#include "cli/option_table.hpp"

#include <algorithm>
#include <cctype>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun::cli {
namespace {

constexpr std::string_view kNotice =
    "Made from the option tables by tests/unit/cli/completion_text.cpp; not edited by hand.";

// The options that only hvdrun scale has.
constexpr std::pair<std::string_view, std::string_view> kScaleOptions[] = {
    {"--repeat", "runs of each size"},
    {"--devices", "numbers of GPUs of one process, in place of -np"},
    {"--drop-epochs", "epochs that are left out"},
    {"--metric", "metrics to plot"},
    {"--epoch-time", "pattern of a time in the output"},
    {"--loss", "pattern of a loss in the output"},
    {"--accuracy", "pattern of an accuracy in the output"},
};

constexpr std::pair<std::string_view, std::string_view> kCommandHelp[] = {
    {"run", "start a program of any name"},
    {"help", "help on a command, or a page of the documents"},
    {"sbatch", "a batch script, or a SLURM job"},
    {"salloc", "an allocation of SLURM, and a program or shell in it"},
    {"templates", "the templates of batch scripts"},
    {"jobs", "your jobs in the queue"},
    {"follow", "show a job's state and output"},
    {"cancel", "end jobs"},
    {"top", "what the ranks of a running job do"},
    {"logs", "the last lines of a running job"},
    {"why", "say why a job hangs"},
    {"scale", "a program at several numbers of ranks, compared"},
};

enum class Completes { nothing, words, files, folders, hosts, variables };

struct Values {
  Completes kind = Completes::nothing;
  std::vector<std::string> words;
};

bool is_lower_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::islower(static_cast<unsigned char>(c)) != 0 || c == '@';
  });
}

Values values_of(const Option& option) {
  const auto name = option.value_name;
  Values values;
  for (auto rest = name; !rest.empty();) {
    const auto bar = std::min(rest.find('|'), rest.size());
    if (const auto word = rest.substr(0, bar); is_lower_word(word)) values.words.emplace_back(word);
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  if (!values.words.empty())
    values.kind = Completes::words;
  else if (name.starts_with("HOST"))
    values.kind = Completes::hosts;
  else if (name.starts_with("FILE") || name == "IMAGE" || name == "NAME|FILE")
    values.kind = Completes::files;
  else if (name == "DIR" || name == "FOLDER")
    values.kind = Completes::folders;
  else if (name == "NAME[=VALUE]")
    values.kind = Completes::variables;
  return values;
}

bool may_be_repeated(const Option& option) {
  return option.kind == ValueKind::environment || option.kind == ValueKind::count ||
         option.help.find("may be repeated") != std::string_view::npos;
}

std::vector<std::string_view> spellings_of(const Option& option) {
  std::vector<std::string_view> all;
  for (const auto spelling : option.spellings)
    if (!spelling.empty()) all.push_back(spelling);
  return all;
}

std::string join(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// --- zsh -----------------------------------------------------------------------------------------

// Escapes text for single quotes inside the brackets of a specification of _arguments.
std::string zsh_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out;
}

std::string zsh_action(const Values& values) {
  switch (values.kind) {
    case Completes::words:
      return "(" + join(values.words) + ")";
    case Completes::files:
      return "_files";
    case Completes::folders:
      return "_files -/";
    case Completes::hosts:
      return "_hosts";
    case Completes::variables:
      return "_parameters -g \"*export*\"";
    case Completes::nothing:
      break;
  }
  return " ";
}

std::string zsh_specifications(std::span<const Option> options) {
  std::string out;
  for (const auto& option : options) {
    const auto spellings = spellings_of(option);
    std::string others;
    for (const auto spelling : spellings)
      others += (others.empty() ? "" : " ") + std::string(spelling);
    for (const auto spelling : spellings) {
      out += "  '";
      out += may_be_repeated(option) ? "*" : "(" + others + ")";
      out += spelling;
      if (takes_value(option) && spelling.starts_with("--")) out += "=";
      out += "[" + zsh_text(option.help) + "]";
      if (takes_value(option))
        out += ":" + zsh_text(option.value_name) + ":" + zsh_action(values_of(option));
      out += "'\n";
    }
  }
  return out;
}

// --- fish ----------------------------------------------------------------------------------------

std::string fish_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return "'" + out + "'";
}

std::string fish_action(const Values& values) {
  switch (values.kind) {
    case Completes::words:
      return " -x -a '" + join(values.words) + "'";
    case Completes::files:
      return " -r -F";
    case Completes::folders:
      return " -x -a '(__fish_complete_directories)'";
    case Completes::hosts:
      return " -x -a '(__fish_print_hostnames)'";
    case Completes::variables:
      return " -x -a '(set -nx)'";
    case Completes::nothing:
      break;
  }
  return " -x";
}

std::string fish_lines(std::span<const Option> options, std::string_view condition) {
  std::string out;
  for (const auto& option : options) {
    out += "complete -c hvdrun -n '" + std::string(condition) + "'";
    for (const auto spelling : spellings_of(option)) {
      if (spelling.starts_with("--"))
        out += " -l " + std::string(spelling.substr(2));
      else if (spelling.size() == 2)
        out += " -s " + std::string(spelling.substr(1));
      else
        out += " -o " + std::string(spelling.substr(1));
    }
    out += takes_value(option) ? fish_action(values_of(option)) : " -f";
    out += " -d " + fish_text(option.help) + "\n";
  }
  return out;
}

std::string fish_list(std::string_view variable, std::span<const Option> options) {
  std::string out = "set -g " + std::string(variable);
  for (const auto& option : options)
    if (takes_value(option))
      for (const auto spelling : spellings_of(option)) out += " " + std::string(spelling);
  return out + "\n";
}

}  // namespace

std::string zsh_completion() {
  std::string out =
      "#compdef hvdrun horovodrun\n# zsh completion for hvdrun(1) and horovodrun.\n# ";
  out += kNotice;
  out +=
      "\n\ntypeset -ga _hvdrun_options _hvdrun_batch_options _hvdrun_scale_options "
      "_hvdrun_commands\n\n_hvdrun_options=(\n";
  out += zsh_specifications(option_table()) + ")\n\n_hvdrun_batch_options=(\n";
  out += zsh_specifications(batch_option_table()) + ")\n\n_hvdrun_scale_options=(\n";
  for (const auto& [spelling, help] : kScaleOptions)
    out += "  '" + std::string(spelling) + "=[" + zsh_text(help) + "]:value: '\n";
  out += "  '--show-output[show the output of the runs]'\n  '--submit[submit each run to SLURM]'\n";
  out += ")\n\n_hvdrun_commands=(\n";
  for (const auto& [name, help] : kCommandHelp)
    out += "  '" + std::string(name) + ":" + zsh_text(help) + "'\n";
  out += R"zsh()

# Completes the first word that is no option: a command, if it is the first of all, or a program.
_hvdrun_first() {
  if (( _hvdrun_takes_commands )); then
    _alternative 'commands:command:{ _describe command _hvdrun_commands }' \
      'programs:program:_command_names -e' 'files:file:_files'
  else
    _alternative 'programs:program:_command_names -e' 'files:file:_files'
  fi
}

_hvdrun_template_names() {
  local -a names
  names=(${(f)"$(_call_program templates hvdrun templates 2>/dev/null | awk 'NR > 1 { print $1 }')"})
  compadd -a names
}

_hvdrun() {
  local -a options
  local -i _hvdrun_takes_commands=0
  options=($_hvdrun_options)
  if [[ $service != horovodrun ]] && (( CURRENT == 2 )); then
    _hvdrun_takes_commands=1
  elif [[ $service != horovodrun ]]; then
    case $words[2] in
      run) ;;
      sbatch | salloc) options=($_hvdrun_batch_options ${_hvdrun_options:#*\)-p\[*}) ;;
      scale) options+=($_hvdrun_scale_options $_hvdrun_batch_options) ;;
      templates)
        if [[ $words[CURRENT-1] == show ]]; then _hvdrun_template_names; else compadd -- show --template-path --help; fi
        return
        ;;
      jobs) compadd -- --all --here --json --help; return ;;
      follow) compadd -- --no-output --help; return ;;
      cancel) compadd -- --help; return ;;
      top)
        if [[ $words[CURRENT-1] == --sort ]]; then
          compadd -- rank waiting step samples cpu memory
        else
          compadd -- --once --json --sort --help
        fi
        return
        ;;
      logs) compadd -- --follow --lines --rank --help; return ;;
      why) compadd -- --json --help; return ;;
      help)
        _describe command _hvdrun_commands
        compadd -- topics ${(f)"$(_call_program topics hvdrun help topics 2>/dev/null | awk '/^$/ { block++ } block == 1 && $1 != "TOPIC" { print $1 }')"}
        return
        ;;
      *) _hvdrun_takes_commands=-1 ;;
    esac
    if (( _hvdrun_takes_commands == 0 )); then
      shift words
      (( CURRENT-- ))
    fi
    _hvdrun_takes_commands=0
  fi
  _arguments -S -A '-*' : $options '(-)1:program:_hvdrun_first' '(-)*::arguments:_normal'
}

_hvdrun "$@"
)zsh";
  return out;
}

std::string fish_completion() {
  std::string out = "# fish completion for hvdrun(1) and horovodrun.\n# ";
  out += kNotice;
  out += "\n\n# The options that a value follows.\n";
  out += fish_list("__hvdrun_valued", option_table());
  out += fish_list("__hvdrun_batch_valued", batch_option_table());
  out += "set -g __hvdrun_scale_valued";
  for (const auto& [spelling, help] : kScaleOptions) out += " " + std::string(spelling);
  out += "\nset -g __hvdrun_commands";
  for (const auto& [name, help] : kCommandHelp) out += " " + std::string(name);
  out += R"fish(

# Prints the words from the program's name on; nothing before there is one.
function __hvdrun_program
    set -l words (commandline -opc)
    set -e words[1]
    if set -q words[1]; and contains -- $words[1] $__hvdrun_commands
        set -e words[1]
    end
    while set -q words[1]
        if test "$words[1]" = --
            set -e words[1]
            break
        else if not string match -q -- '-*' $words[1]
            break
        else if contains -- $words[1] $__hvdrun_valued $__hvdrun_batch_valued $__hvdrun_scale_valued
            set -e words[1]
        end
        set -q words[1]; and set -e words[1]
    end
    string join -- \n $words
end

# Whether a command of hvdrun has been typed, one of the arguments if there are any.
function __hvdrun_has_command
    set -l words (commandline -opc)
    set -q words[2]; or return 1
    contains -- $words[2] $__hvdrun_commands; or return 1
    test (count $argv) -eq 0; or contains -- $words[2] $argv
end

function __hvdrun_is_first
    test (count (commandline -opc)) -eq 1
end

# Whether options may be typed: there is no program yet, and no command without a program.
function __hvdrun_takes_options
    __hvdrun_has_command templates jobs follow cancel top logs why help; and return 1
    test (count (__hvdrun_program)) -eq 0
end

function __hvdrun_takes_batch_options
    __hvdrun_has_command sbatch salloc scale; and __hvdrun_takes_options
end

# Completes the program's own words.
function __hvdrun_complete_program
    set -l words (__hvdrun_program)
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end

complete -c hvdrun -f
complete -c hvdrun -n '__hvdrun_takes_options' -a '(__fish_complete_command)'
complete -c hvdrun -n '__hvdrun_takes_options' -F
complete -c hvdrun -n 'not __hvdrun_has_command templates jobs follow cancel top logs why help; and test (count (__hvdrun_program)) -gt 0' -a '(__hvdrun_complete_program)'
complete -c hvdrun -n '__hvdrun_has_command templates' -a 'show' -l template-path -l help
complete -c hvdrun -n '__hvdrun_has_command jobs' -l all -l here -l json -l help
complete -c hvdrun -n '__hvdrun_has_command follow' -l no-output -l help
complete -c hvdrun -n '__hvdrun_has_command cancel' -l help
complete -c hvdrun -n '__hvdrun_has_command top' -l once -l json -l help
complete -c hvdrun -n '__hvdrun_has_command top' -l sort -x -a 'rank waiting step samples cpu memory'
complete -c hvdrun -n '__hvdrun_has_command logs' -s f -l follow -l help
complete -c hvdrun -n '__hvdrun_has_command logs' -s n -l lines -l rank -x
complete -c hvdrun -n '__hvdrun_has_command help' -a 'topics (hvdrun help topics 2>/dev/null | awk \'/^$/ { block++ } block == 1 && $1 != "TOPIC" { print $1 }\')'
complete -c hvdrun -n '__hvdrun_has_command why' -l json -l help
)fish";
  for (const auto& [name, help] : kCommandHelp) {
    out += "complete -c hvdrun -n '__hvdrun_is_first; or __hvdrun_has_command help' -a " +
           std::string(name) + " -d " + fish_text(help) + "\n";
  }
  out += fish_lines(option_table(), "__hvdrun_takes_options");
  out += fish_lines(batch_option_table(), "__hvdrun_takes_batch_options");
  for (const auto& [spelling, help] : kScaleOptions)
    out += "complete -c hvdrun -n '__hvdrun_has_command scale; and __hvdrun_takes_options' -l " +
           std::string(spelling.substr(2)) + " -x -d " + fish_text(help) + "\n";
  out += "complete -c horovodrun -w hvdrun\n";
  return out;
}

}  // namespace hvdrun::cli
