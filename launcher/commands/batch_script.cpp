#include "commands/batch_script.hpp"

#include "common/text.hpp"
#include "slurm/job_record.hpp"
#include "slurm/quoting.hpp"
#include "slurm/render.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {

std::string job_comment(const std::vector<std::string>& program) {
  constexpr std::size_t kLongest = 200;
  std::string text(kCommentPrefix);
  for (const auto& word : program) {
    if (text.size() > kCommentPrefix.size()) text += ' ';
    text += quote_for_comment(word);
  }
  if (text.size() <= kLongest) return text;
  text.resize(kLongest);
  // Not in the middle of a letter of several bytes (UTF-8).
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  if (!text.empty() && (static_cast<unsigned char>(text.back()) & 0x80) != 0) text.pop_back();
  return text + " ...";
}

std::string job_name_of(const std::vector<std::string>& program) {
  if (program.empty()) return {};
  const auto name_of = [](const std::string& word) {
    return std::filesystem::path(word).filename().string();
  };
  auto name = name_of(program.front());
  const bool is_interpreter = name.substr(0, 6) == "python" || name == "bash" || name == "sh" ||
                              name == "julia" || name == "Rscript";
  if (!is_interpreter) return name;
  const auto script = std::find_if(program.begin() + 1, program.end(), [](const auto& word) {
    return word.substr(0, 1) != "-" || word == "-c";
  });
  return script == program.end() || *script == "-c" ? name : name_of(*script);
}

namespace {

constexpr int kMostRanks = 1 << 24;

int divide_up(int a, int b) {
  return (a - 1) / b + 1;
}

// How many ranks a node can have; none: nothing says so.
std::optional<int> capacity_of_node(const JobSpec& job, const BatchSpec& batch) {
  if (job.ranks_per_host) return job.ranks_per_host;
  if (batch.gpus_per_node.value_or(0) > 0) return batch.gpus_per_node;
  if (batch.cpus_per_node && job.cpus_per_rank)
    return std::max(1, *batch.cpus_per_node / *job.cpus_per_rank);
  return std::nullopt;
}

Result<int> number_of_ranks(const JobSpec& job, const BatchSpec& batch, std::optional<int> nodes) {
  if (job.ranks) return *job.ranks;
  if (const auto capacity = capacity_of_node(job, batch); nodes && capacity) {
    if (*nodes > kMostRanks / *capacity)
      return fail(fmt::format("{} with {} each are more than hvdrun can start",
                              plural(*nodes, "node"), plural(*capacity, "rank")),
                  kExitUsage);
    return *nodes * *capacity;
  }
  return fail("how many ranks? -np N, or --nodes N with --gpus-per-node K", kExitUsage);
}

Result<void> check_numbers(int ranks, const JobSpec& job, const BatchSpec& batch) {
  if (ranks > kMostRanks)
    return fail(plural(ranks, "rank") + " are more than hvdrun can start", kExitUsage);
  const int gpus = batch.gpus_per_node.value_or(0);
  if (gpus > 0 && job.ranks_per_host.value_or(0) > gpus && !job.oversubscribe)
    return fail(fmt::format("--ranks-per-host {} on nodes with {}: ranks would share GPUs, which "
                            "--oversubscribe allows",
                            *job.ranks_per_host, plural(gpus, "GPU")),
                kExitUsage);
  return {};
}

// What a node's CPUs are shared by.
int cpu_shares(const BatchShape& shape, const JobSpec& job, const BatchSpec& batch) {
  const int gpus = batch.gpus_per_node.value_or(0);
  if (gpus > 0 && !job.ranks_per_host) return gpus;
  if (shape.nodes) return divide_up(shape.ranks, *shape.nodes);
  return 0;
}

// The template's name for an option of sbatch: "job_name" for "job-name".
std::string variable_of(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

TemplateValue text_or_unset(const std::string& text) {
  if (text.empty()) return false;
  return text;
}

TemplateValue expanded_or_unset(const std::string& text) {
  if (text.empty()) return false;
  return ExpandedText{text};
}

TemplateValue number_or_unset(std::optional<int> number) {
  if (!number) return false;
  return std::to_string(*number);
}

void add_values(const BatchSpec& batch, const BatchShape& shape, const BatchCommand& command,
                TemplateValues& values) {
  for (const auto& option : batch.slurm_options) values[variable_of(option.name)] = option.value;
  values["ranks"] = std::to_string(shape.ranks);
  values["nodes"] = number_or_unset(shape.nodes);
  values["ranks_per_node"] = number_or_unset(shape.ranks_per_node);
  values["gpus_per_node"] =
      shape.gpus_per_node > 0 ? std::to_string(shape.gpus_per_node) : TemplateValue(false);
  values["cpus_per_rank"] = std::to_string(shape.cpus_per_rank);
  values["comment"] = text_or_unset(batch.comment);
  values["requeue"] = batch.requeue;
  values["sbatch_args"] = batch.sbatch_arguments;
  values["has_modules"] = !batch.modules.empty();
  values["modules"] = batch.modules;
  values["conda"] = expanded_or_unset(batch.conda);
  values["venv"] = expanded_or_unset(batch.venv);
  values["container"] = expanded_or_unset(batch.container);
  values["summary"] = describe(shape);
  values["hvdrun"] = command.hvdrun;
  values["program"] = command.program;
  auto words = command.hvdrun;
  words.emplace_back("--");
  words.insert(words.end(), command.program.begin(), command.program.end());
  values["command"] = std::move(words);
}

// An option that the user gave must have its place.
Result<void> check_places(const ScriptTemplate& script, const BatchSpec& batch) {
  const std::pair<bool, std::string_view> given[] = {
      {!batch.modules.empty(), "modules"},
      {!batch.conda.empty(), "conda"},
      {!batch.venv.empty(), "venv"},
      {!batch.container.empty(), "container"},
  };
  for (const auto& [is_given, variable] : given) {
    if (!is_given || script.shows(variable)) continue;
    const auto job =
        std::find_if(job_variables().begin(), job_variables().end(),
                     [&, name = variable](const auto& each) { return each.name == name; });
    return fail(fmt::format("{}: the template {} has no place for it ({})", job->option,
                            script.name, script.file),
                kExitUsage);
  }
  return {};
}

}  // namespace

Result<BatchShape> batch_shape(const JobSpec& job, const BatchSpec& batch) {
  BatchShape shape;
  shape.nodes = batch.nodes ? batch.nodes : job.nodes;
  HVD_TRY(shape.ranks, number_of_ranks(job, batch, shape.nodes));
  HVD_CHECK(check_numbers(shape.ranks, job, batch));
  if (const auto capacity = capacity_of_node(job, batch); capacity) {
    const int needed = divide_up(shape.ranks, *capacity);
    if (shape.nodes.value_or(needed) < needed)
      return fail(fmt::format("{} do not fit on {} with {} each: --nodes {}, or fewer ranks",
                              plural(shape.ranks, "rank"), plural(*shape.nodes, "node"),
                              batch.gpus_per_node.value_or(0) > 0 && !job.ranks_per_host
                                  ? plural(*capacity, "GPU")
                                  : plural(*capacity, "rank"),
                              needed),
                  kExitUsage);
    if (!shape.nodes) shape.nodes = needed;
  }
  if (shape.nodes) {
    // hvdrun fills one node after the other with so many.
    shape.ranks_per_node = divide_up(shape.ranks, *shape.nodes);
    if (const int used = divide_up(shape.ranks, *shape.ranks_per_node); used < *shape.nodes)
      return fail(fmt::format("{} on {}, {} each: only {} would have any; --nodes {}",
                              plural(shape.ranks, "rank"), plural(*shape.nodes, "node"),
                              *shape.ranks_per_node, plural(used, "node"), used),
                  kExitUsage);
  }
  if (const int gpus = batch.gpus_per_node.value_or(0); gpus > 0)
    shape.gpus_per_node = job.ranks_per_host ? gpus : divide_up(shape.ranks, *shape.nodes);
  const int shares = cpu_shares(shape, job, batch);
  if (job.cpus_per_rank) {
    shape.cpus_per_rank = *job.cpus_per_rank;
  } else if (batch.cpus_per_node && shares > 0) {
    shape.cpus_per_rank = std::max(1, *batch.cpus_per_node / shares);
  }
  return shape;
}

std::string describe(const BatchShape& shape) {
  std::string text = plural(shape.ranks, "rank") + ": ";
  if (shape.nodes) {
    text += plural(*shape.nodes, "node");
    if (shape.gpus_per_node > 0) text += " × " + plural(shape.gpus_per_node, "GPU");
    if (shape.ranks_per_node && *shape.ranks_per_node != shape.gpus_per_node) {
      const auto ranks = plural(*shape.ranks_per_node, "rank");
      const bool even = *shape.ranks_per_node * *shape.nodes == shape.ranks;
      text += even ? " × " + ranks : ", at most " + ranks + " on each";
    }
    text += ", ";
  }
  return text + plural(shape.cpus_per_rank, "CPU") + " a rank";
}

std::vector<Request> slurm_requests(const BatchSpec& batch, const BatchShape& shape) {
  std::vector<Request> requests;
  const auto add = [&](std::string variable, std::string option, std::string name,
                       const std::string& value) {
    requests.push_back(
        {std::move(variable), std::move(option), "--" + std::move(name) + "=" + value});
  };
  for (const auto& option : batch.slurm_options) {
    if (option.name != "job-name") continue;
    add("job_name", "--job-name", "job-name", option.value);
    requests.back().is_own_idea = option.is_own_idea;
  }
  if (shape.nodes) add("nodes", "", "nodes", std::to_string(*shape.nodes));
  if (shape.ranks_per_node) {
    add("ranks_per_node", "", "ntasks-per-node", std::to_string(*shape.ranks_per_node));
  } else {
    add("ranks", "", "ntasks", std::to_string(shape.ranks));
  }
  if (shape.gpus_per_node > 0)
    add("gpus_per_node", "", "gpus-per-node", std::to_string(shape.gpus_per_node));
  add("cpus_per_rank", "", "cpus-per-task", std::to_string(shape.cpus_per_rank));
  for (const auto& option : batch.slurm_options)
    if (option.name != "job-name")
      add(variable_of(option.name),
          option.name.substr(0, 4) == "mail" ? "--mail" : "--" + option.name, option.name,
          option.value);
  if (!batch.comment.empty()) {
    add("comment", "", "comment", batch.comment);
    requests.back().is_own_idea = true;
  }
  if (batch.requeue) {
    requests.push_back({"requeue", "--requeue", "--requeue"});
    // All runs of the job write one file.
    requests.push_back({"requeue", "--requeue", "--open-mode=append"});
  }
  for (const auto& argument : batch.sbatch_arguments)
    requests.push_back({"sbatch_args", "--sbatch-arg", argument});
  return requests;
}

Result<BatchScript> batch_script(const ScriptTemplate& script, const BatchSpec& batch,
                                 const BatchShape& shape, const BatchCommand& command) {
  HVD_CHECK(check_places(script, batch));
  HVD_TRY(auto values, own_values(script, batch.variables));
  add_values(batch, shape, command, values);
  BatchScript made;
  for (auto& request : slurm_requests(batch, shape)) {
    if (script.asks_for(request.variable)) continue;
    if (script.shows("directives")) {
      made.directives.push_back(std::move(request.text));
    } else if (!request.is_own_idea) {
      return fail(fmt::format("{}: the template {} has no place for it ({}): no #SBATCH line shows "
                              "{}, or directives",
                              request.option.empty() ? request.text : request.option, script.name,
                              script.file, request.variable),
                  kExitUsage);
    }
  }
  values["directives"] = made.directives;
  HVD_TRY(made.text, render_script(script, values));
  return made;
}

}  // namespace hvdrun
