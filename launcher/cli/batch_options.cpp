#include "cli/batch_options.hpp"

#include "base/is_one_of.hpp"
#include "cli/values.hpp"
#include "common/text.hpp"
#include "slurm/quoting.hpp"
#include "slurm/warning_signal.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstddef>

namespace hvdrun::cli {
namespace {

using Value = std::string_view;
using enum ValueKind;
using enum OptionGroup;

Result<std::string> parse_line(Value value) {
  if (value.empty()) return fail("needs a value", kExitUsage);
  if (!fits_directive(value))
    return fail("must be one line of text, not " + quote(value), kExitUsage);
  return std::string(value);
}

Result<std::string> parse_slurm_time(Value value) {
  constexpr std::array<Value, 4> kNoLimit{"UNLIMITED", "unlimited", "INFINITE", "infinite"};
  if (is_one_of(value, kNoLimit) || parse_limit(value)) return std::string(value);
  return fail("needs SLURM's kind of time, such as 90 (minutes), 1:30:00 or 2-12:00:00, not " +
                  quote(value),
              kExitUsage);
}

// Returns K, M, G or T for a unit of memory such as "", "g", "GB" and "GiB", which SLURM refuses.
// Returns '\0' for anything else.
char unit_of_memory(Value text) {
  if (text.empty()) return 'M';
  const auto letter = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  constexpr std::array<Value, 5> kEnds{"", "B", "b", "iB", "ib"};
  return Value("KMGT").find(letter) != Value::npos && is_one_of(text.substr(1), kEnds) ? letter
                                                                                       : '\0';
}

// Reads a size as sbatch does: a whole number with or without a unit. For a fraction, the error has
// the size in a smaller unit, rounded up.
Result<std::string> parse_memory(Value value) {
  constexpr double kMost = 1e9;
  double size = 0;
  const auto* const last = value.data() + value.size();
  const auto [end, error] = std::from_chars(value.data(), last, size, std::chars_format::fixed);
  const Value typed(end, static_cast<std::size_t>(last - end));
  const char unit = unit_of_memory(typed);
  const bool has_size = error == std::errc{} && size >= 0 && size <= kMost && unit != '\0';
  const bool is_number =
      has_size && std::all_of(value.data(), end, [](char c) { return c >= '0' && c <= '9'; });
  if (is_number && typed.find('i') == Value::npos) return std::string(value);
  std::string whole;
  if (has_size && size > 0) {
    const auto at = Value("KMGT").find(unit);
    const bool is_whole = at == 0 || size == std::floor(size);
    whole = "; type " + std::to_string(std::llround(std::ceil(is_whole ? size : size * 1024))) +
            "KMGT"[is_whole ? at : at - 1];
  }
  return fail("needs a whole number with K, M, G or T, such as 64G, not " + quote(value) + whole,
              kExitUsage);
}

// Reads the number of a node's GPUs, and refuses SLURM's TYPE:K.
Result<int> parse_gpus(Value value) {
  const auto colon = value.rfind(':');
  const auto number = parse_whole(value.substr(colon == Value::npos ? 0 : colon + 1), 0);
  if (colon == Value::npos || !number) return parse_whole(value, 0);
  auto type = value.substr(0, colon);
  if (type.starts_with("gpu:")) type.remove_prefix(4);
  const auto count = std::to_string(*number);
  const auto usual = "needs a number alone, not " + quote(value) + ": --gpus-per-node " + count;
  if (type == "gpu") return fail(usual, kExitUsage);
  return fail(usual + ", and for the type --sbatch-arg=--gpus-per-node=" + std::string(type) +
                  ":K, where K is how many the job needs of each node",
              kExitUsage);
}

// Returns what is wrong with a range of --array that ends before its start, or has a step of 0;
// otherwise "".
std::string wrong_range(Value value) {
  const auto number = [](Value text) { return std::stol(std::string(text)); };
  for (auto rest = value.substr(0, value.find('%'));;) {
    const auto comma = rest.find(',');
    const auto item = rest.substr(0, comma);
    const auto dash = item.find('-');
    const auto step = item.find(':');
    if (dash != Value::npos) {
      const auto first = item.substr(0, dash);
      const auto last = item.substr(dash + 1, step - dash - 1);
      const auto steps = step == Value::npos ? Value() : item.substr(step);
      if (number(first) > number(last))
        return "has " + quote(item) + ", which ends before it begins: type " + std::string(last) +
               "-" + std::string(first) + std::string(steps);
      if (!steps.empty() && number(steps.substr(1)) == 0)
        return "needs a step of 1 or more, not " + quote(item);
    }
    if (comma == Value::npos) return {};
    rest.remove_prefix(comma + 1);
  }
}

// Returns whether the value is one of --array in sbatch(1): "1,3,5-9:2%4".
bool is_array(Value value) {
  const auto is_number = [](Value text) {
    return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == Value::npos;
  };
  const auto at_once = value.find('%');
  if (at_once != Value::npos && !is_number(value.substr(at_once + 1))) return false;
  for (auto rest = value.substr(0, at_once);;) {
    const auto comma = rest.find(',');
    const auto item = rest.substr(0, comma);
    const auto dash = item.find('-');
    const auto step = item.find(':');
    if (dash == Value::npos ? !is_number(item)
                            : !is_number(item.substr(0, dash)) ||
                                  !is_number(item.substr(dash + 1, step - dash - 1)) ||
                                  (step != Value::npos && !is_number(item.substr(step + 1))))
      return false;
    if (comma == Value::npos) return true;
    rest.remove_prefix(comma + 1);
  }
}

// Reads text in which the script expands $NAME and ${NAME} (see ExpandedText).
Result<std::string> parse_expanded(Value value) {
  HVD_TRY(auto text, parse_line(value));
  if (is_expandable(text)) return text;
  return fail(
      "can have $NAME or ${NAME} in it, which the script expands, but nothing else after $: " +
          quote(value),
      kExitUsage);
}

// Stores an option for SLURM. It replaces an earlier one of the same name.
Result<void> keep(BatchSpec& batch, std::string name, Result<std::string> value) {
  if (!value) return std::move(value).error();
  auto& options = batch.slurm_options;
  const auto at = std::find_if(options.begin(), options.end(),
                               [&](const auto& known) { return known.name == name; });
  if (at != options.end()) {
    at->value = std::move(*value);
  } else {
    options.push_back({std::move(name), std::move(*value)});
  }
  return {};
}

Result<void> apply_array(BatchSpec& batch, Value value) {
  if (is_array(value)) {
    if (auto fault = wrong_range(value); !fault.empty()) return fail(std::move(fault), kExitUsage);
    return keep(batch, "array", std::string(value));
  }
  return fail("needs indices such as 0-9, 1,3 or 0-99%4 (four at a time), not " + quote(value),
              kExitUsage);
}

// Reads ADDRESS or ADDRESS:TYPE,…, for sbatch's --mail-user and --mail-type.
Result<void> apply_mail(BatchSpec& batch, Value value) {
  const auto colon = value.find(':');
  const auto at = value.substr(0, colon).find('@');
  if (at == 0 || at == Value::npos || at + 1 == value.substr(0, colon).size())
    return fail("needs an address such as me@example.org, not " + quote(value) +
                    "; a user of the mail host: --sbatch-arg --mail-user=NAME",
                kExitUsage);
  HVD_CHECK(keep(batch, "mail-user", parse_line(value.substr(0, colon))));
  return keep(batch, "mail-type",
              parse_line(colon == Value::npos ? "END,FAIL" : value.substr(colon + 1)));
}

Result<void> apply_module(BatchSpec& batch, Value value) {
  for (auto& name : split_list(value)) {
    HVD_CHECK(parse_line(name));
    // module(1) would read "-name" as an option.
    if (name.front() == '-') return fail("needs names of modules, not " + quote(name), kExitUsage);
    batch.modules.push_back(std::move(name));
  }
  return {};
}

Result<void> apply_variable(BatchSpec& batch, Value value) {
  const auto equals = value.find('=');
  if (equals == 0 || equals == Value::npos)
    return fail("needs NAME=VALUE, not " + quote(value), kExitUsage);
  batch.variables.push_back(
      {std::string(value.substr(0, equals)), std::string(value.substr(equals + 1))});
  return {};
}

Result<void> apply_template_path(BatchSpec& batch, Value value) {
  HVD_TRY(auto folder, parse_path(value));
  batch.template_folders.emplace_back(std::move(folder));
  return {};
}

Result<void> apply_sbatch_argument(BatchSpec& batch, Value value) {
  HVD_TRY(auto argument, parse_line(value));
  if (argument.substr(0, 1) != "-")
    return fail("needs an option of sbatch, such as --constraint=v100, not " + quote(value),
                kExitUsage);
  // An option and its value with a blank between, such as "--time 5", become --time=5.
  if (const auto blank = argument.find(' ');
      blank != std::string::npos && blank < argument.find('=')) {
    if (argument.substr(0, 2) != "--")
      return fail(
          "needs OPTION=VALUE with the option's long name, such as --constraint=v100, not " +
              quote(value),
          kExitUsage);
    argument[blank] = '=';
  }
  // With these options sbatch and salloc would not do what hvdrun expects of them.
  constexpr std::string_view kUnfit[] = {"--wait",    "-W", "--test-only", "--wrap", "--parsable",
                                         "--quiet",   "-Q", "--no-shell",  "--help", "--usage",
                                         "--version", "-h", "-V"};
  const auto name = argument.substr(0, argument.find('='));
  if (std::find(std::begin(kUnfit), std::end(kUnfit), name) != std::end(kUnfit))
    return fail("cannot be " + name + "; hvdrun has --wait, --test-only and --follow", kExitUsage);
  batch.sbatch_arguments.push_back(std::move(argument));
  return {};
}

// Stores an option that SLURM has under the same name.
template <const char* Name>
Result<void> keep_line(BatchSpec& batch, Value value) {
  return keep(batch, Name, parse_line(value));
}

constexpr char kPartition[] = "partition";
constexpr char kAccount[] = "account";
constexpr char kQos[] = "qos";
constexpr char kDependency[] = "dependency";
constexpr char kSignal[] = "signal";
constexpr char kJobName[] = "job-name";
constexpr char kOutput[] = "output";
constexpr char kError[] = "error";
constexpr char kChdir[] = "chdir";

Result<void> store_flag(Value value, bool& flag) {
  return store(Result<bool>(value == "true"), flag);
}

constexpr Option kBatchOptions[] = {
    {"nodes",
     {"--nodes", "-N"},
     number,
     resources,
     "N",
     "as many as the ranks need",
     "number of nodes",
     nullptr,
     [](BatchSpec& batch, Value v) { return store(parse_hosts_count(v), batch.nodes); }},
    {"gpus-per-node",
     {"--gpus-per-node"},
     number,
     resources,
     "K",
     "",
     "number of GPUs that a node has; the job requests one per rank. 0: ranks without GPUs",
     nullptr,
     [](BatchSpec& batch, Value v) { return store(parse_gpus(v), batch.gpus_per_node); }},
    {"cpus-per-node",
     {"--cpus-per-node"},
     number,
     resources,
     "K",
     "",
     "number of CPUs (as SLURM counts them) that a node has, for its ranks to share",
     nullptr,
     [](BatchSpec& batch, Value v) { return store(parse_whole(v, 1), batch.cpus_per_node); }},
    {"time",
     {"--time", "-t"},
     word,
     resources,
     "TIME",
     "the partition's",
     "time limit: minutes, H:M:S or D-H:M:S",
     nullptr,
     [](BatchSpec& batch, Value v) { return keep(batch, "time", parse_slurm_time(v)); }},
    {"partition",
     {"--partition", "-p"},
     word,
     resources,
     "NAME",
     "SLURM's",
     "partition",
     nullptr,
     keep_line<kPartition>},
    {"account",
     {"--account", "-A"},
     word,
     resources,
     "NAME",
     "yours",
     "account to charge",
     nullptr,
     keep_line<kAccount>},
    {"qos",
     {"--qos", "-q"},
     word,
     resources,
     "NAME",
     "SLURM's",
     "quality of service",
     nullptr,
     keep_line<kQos>},
    {"mem",
     {"--mem"},
     word_number,
     resources,
     "SIZE",
     "the partition's",
     "memory of each node, such as 64G; 0: all of it",
     nullptr,
     [](BatchSpec& batch, Value v) { return keep(batch, "mem", parse_memory(v)); }},
    {"array",
     {"--array"},
     word_number,
     resources,
     "INDICES",
     "",
     "run a job for each index, such as 0-9 or 1,3",
     nullptr,
     apply_array},
    {"dependency",
     {"--dependency"},
     word,
     resources,
     "TYPE:JOB",
     "",
     "wait for other jobs, such as afterok:1234",
     nullptr,
     keep_line<kDependency>},
    {"signal",
     {"--signal"},
     word,
     resources,
     "B:SIGNAL@SECONDS",
     "",
     "signal to all ranks before the time limit, such as B:USR1@120",
     nullptr,
     keep_line<kSignal>},
    {"requeue",
     {"--requeue"},
     flag,
     resources,
     "",
     "false",
     "put a job that had to stop back into the queue, to continue from its checkpoint, at most "
     "--max-restarts times",
     nullptr,
     [](BatchSpec& batch, Value v) { return store_flag(v, batch.requeue); }},
    {"mail",
     {"--mail"},
     word,
     resources,
     "ADDRESS[:TYPE,...]",
     "",
     "mail about the job, by default at its end or failure",
     nullptr,
     apply_mail},
    {"sbatch-arg",
     {"--sbatch-arg"},
     word,
     resources,
     "OPTION",
     "",
     "another option of sbatch, such as --constraint=v100; may be repeated",
     nullptr,
     apply_sbatch_argument},

    {"job-name",
     {"--job-name", "-J"},
     word,
     script,
     "NAME",
     "the program's",
     "the job's name",
     nullptr,
     keep_line<kJobName>},
    {"output",
     {"--output"},
     word,
     script,
     "FILE",
     "slurm-%j.out",
     "file for the output; %j is the job's id",
     nullptr,
     keep_line<kOutput>},
    {"error",
     {"--error"},
     word,
     script,
     "FILE",
     "the output's",
     "file for the error output",
     nullptr,
     keep_line<kError>},
    {"chdir",
     {"--chdir", "-D"},
     word,
     script,
     "FOLDER",
     "the current one",
     "folder in which the script runs",
     nullptr,
     keep_line<kChdir>},
    {"module",
     {"--module"},
     list,
     script,
     "NAME,...",
     "",
     "environment modules to load, after module purge; may be repeated",
     nullptr,
     apply_module},
    {"conda",
     {"--conda"},
     word,
     script,
     "ENVIRONMENT",
     "",
     "conda environment to activate",
     nullptr,
     [](BatchSpec& batch, Value v) { return store(parse_expanded(v), batch.conda); }},
    {"venv",
     {"--venv"},
     word,
     script,
     "FOLDER",
     "",
     "Python virtual environment to activate",
     nullptr,
     [](BatchSpec& batch, Value v) { return store(parse_expanded(v), batch.venv); }},
    {"container",
     {"--container"},
     word,
     script,
     "IMAGE",
     "",
     "container image in which the ranks run (apptainer)",
     nullptr,
     [](BatchSpec& batch, Value v) { return store(parse_expanded(v), batch.container); }},
    {"template",
     {"--template"},
     word,
     script,
     "NAME|FILE",
     "generic",
     "template of the script; hvdrun templates lists them",
     nullptr,
     [](BatchSpec& batch, Value v) { return store(parse_path(v), batch.template_name); }},
    {"template-path",
     {"--template-path"},
     word,
     script,
     "FOLDER",
     "",
     "look for templates here first; may be repeated",
     nullptr,
     apply_template_path},
    {"set",
     {"--set"},
     environment,
     script,
     "NAME=VALUE",
     "",
     "a variable of the template; may be repeated",
     nullptr,
     apply_variable},

    {"script-file",
     {"-o", "--script-file"},
     word,
     submission,
     "FILE",
     "stdout",
     "write the script to FILE",
     nullptr,
     [](BatchSpec& batch, Value v) { return store(parse_path(v), batch.script_file); }},
    {"test-only",
     {"--test-only"},
     flag,
     submission,
     "",
     "false",
     "ask SLURM whether the job could start, and when; submit nothing",
     nullptr,
     [](BatchSpec& batch, Value v) { return store_flag(v, batch.test_only); }},
    {"submit",
     {"--submit"},
     flag,
     submission,
     "",
     "false",
     "submit the script, and print the job's id",
     nullptr,
     [](BatchSpec& batch, Value v) { return store_flag(v, batch.submit); }},
    {"wait",
     {"--wait"},
     flag,
     submission,
     "",
     "false",
     "submit, wait for the job's end, and end with its exit code",
     nullptr,
     [](BatchSpec& batch, Value v) { return store_flag(v, batch.wait); }},
    {"follow",
     {"--follow"},
     flag,
     submission,
     "",
     "false",
     "submit, and show the job's state and output until its end; Ctrl-C leaves it running",
     nullptr,
     [](BatchSpec& batch, Value v) { return store_flag(v, batch.follow); }},
};

}  // namespace

std::span<const Option> batch_option_table() {
  return kBatchOptions;
}

bool is_of_scripts(const Option& option) {
  constexpr std::string_view kNames[] = {"array",  "requeue", "signal", "output",    "error",
                                         "module", "conda",   "venv",   "container", "set"};
  return option.group == submission ||
         std::find(std::begin(kNames), std::end(kNames), option.name) != std::end(kNames);
}

}  // namespace hvdrun::cli
