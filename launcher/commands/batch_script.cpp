#include "commands/batch_script.hpp"

#include "slurm/render.hpp"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace hvdrun {
namespace {

// Returns the template's name for an option of sbatch: "job_name" for "job-name".
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
  values["ranks"] = std::to_string(shape.places);
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

// Error: the template does not show an option that the user gave.
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
    add("ranks", "", "ntasks", std::to_string(shape.places));
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
  const auto& given = batch.sbatch_arguments;
  const bool has_no_kill = std::any_of(given.begin(), given.end(), [](const auto& argument) {
    return argument.starts_with("--no-kill") || argument == "-k";
  });
  if (shape.survives_nodes && !has_no_kill) {
    requests.push_back({"no_kill", "--min-np", "--no-kill"});
    requests.back().is_own_idea = true;
  }
  if (batch.requeue) {
    requests.push_back({"requeue", "--requeue", "--requeue"});
    // Each run after a requeue appends to the same output file.
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
