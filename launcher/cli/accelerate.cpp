#include "cli/accelerate.hpp"

#include "common/text.hpp"

#include <algorithm>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hvdrun::cli {
namespace {

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::toupper(c); });
  return result;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

// Returns the value of a plain or quoted scalar; accelerate writes no others.
std::string scalar(std::string_view text) {
  const bool quoted = text.size() >= 2 && (text.front() == '\'' || text.front() == '"') &&
                      text.front() == text.back();
  if (quoted) return std::string(text.substr(1, text.size() - 2));
  if (const auto comment = text.find(" #"); comment != std::string_view::npos)
    text = trim(text.substr(0, comment));
  return std::string(text);
}

bool is_true(const std::string& value) {
  return lower(value) == "true";
}

// Returns True and False in lower case, as accelerate does, and other values unchanged.
std::string without_capitals(const std::string& value) {
  const auto small = lower(value);
  return small == "true" || small == "false" ? small : value;
}

void add_main(const std::string& name, const std::string& value, Environment& variables) {
  if (name == "mixed_precision") variables["ACCELERATE_MIXED_PRECISION"] = lower(value);
  if (name == "use_cpu") variables["ACCELERATE_USE_CPU"] = lower(value);
  if (name == "debug" && is_true(value)) variables["ACCELERATE_DEBUG_MODE"] = "true";
  if (name == "enable_cpu_affinity" && is_true(value)) variables["ACCELERATE_CPU_AFFINITY"] = "1";
  if (name != "distributed_type") return;
  for (const char* kind : {"FSDP", "DEEPSPEED", "MEGATRON_LM"})
    if (value == kind) variables[std::string("ACCELERATE_USE_") + kind] = "true";
}

void add_fsdp(const std::string& name, const std::string& value, Environment& variables) {
  if (name == "fsdp_transformer_layer_cls_to_wrap")
    variables["FSDP_TRANSFORMER_CLS_TO_WRAP"] = value;
  else if (name == "fsdp_backward_prefetch_policy")
    variables["FSDP_BACKWARD_PREFETCH"] = value;
  else
    variables[upper(name)] = without_capitals(value);
}

void add_deepspeed(const std::string& name, const std::string& value, Environment& variables) {
  const std::string prefix = "ACCELERATE_DEEPSPEED_";
  if (name == "gradient_accumulation_steps" || name == "gradient_clipping")
    variables["ACCELERATE_" + upper(name)] = lower(value);
  else if (name == "zero3_init_flag")
    variables[prefix + "ZERO3_INIT"] = lower(value);
  else if (name == "deepspeed_config_file")
    variables[prefix + "CONFIG_FILE"] = value;
  else if (name == "deepspeed_moe_layer_cls_names")
    variables[prefix + "MOE_LAYER_CLS_NAMES"] = value;
  else
    variables[prefix + upper(name)] = without_capitals(value);
}

// Adds the variables for one value. `section` is empty for values at the top of the file.
void add(const std::string& section, const std::string& name, const std::string& value,
         Environment& variables) {
  if (value == "null" || value == "~") return;
  if (section.empty()) add_main(name, value, variables);
  if (section == "fsdp_config") add_fsdp(name, value, variables);
  if (section == "deepspeed_config") add_deepspeed(name, value, variables);
  if (section == "megatron_lm_config") variables[upper(name)] = without_capitals(value);
  if (section == "dynamo_config")
    variables["ACCELERATE_" + upper(name)] = name == "dynamo_backend" ? upper(value) : value;
}

}  // namespace

std::filesystem::path accelerate_config(const Environment& environment) {
  const auto below = [&](const char* name, const char* folder) {
    const auto* value = find_variable(environment, name);
    return value == nullptr || value->empty() ? std::filesystem::path()
                                              : std::filesystem::path(*value) / folder;
  };
  auto folder = below("HF_HOME", "");
  if (folder.empty()) folder = below("XDG_CACHE_HOME", "huggingface");
  if (folder.empty()) folder = below("HOME", ".cache/huggingface");
  return folder.empty() ? folder : folder / "accelerate/default_config.yaml";
}

Result<Environment> accelerate_variables(std::string_view text) {
  Environment variables;
  std::string section;
  int number = 0;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    const auto line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    const auto words = trim(line);
    if (words.empty() || words.front() == '#' || words == "---") continue;
    const bool indented = std::isspace(static_cast<unsigned char>(line.front())) != 0;
    if (words.starts_with("- ") && !section.empty())
      continue;  // accelerate makes no variables of lists
    const auto colon = words.find(':');
    const bool fits = colon != std::string_view::npos && colon > 0 &&
                      (colon + 1 == words.size() || words[colon + 1] == ' ') &&
                      (!indented || !section.empty());
    if (!fits) return fail(fmt::format("line {} is no \"name: value\"", number), kExitUsage);
    const std::string name(words.substr(0, colon));
    const auto value = scalar(trim(words.substr(colon + 1)));
    if (!indented) section = value.empty() ? name : "";
    if (!value.empty()) add(section, name, value, variables);
  }
  return variables;
}

}  // namespace hvdrun::cli
