// One option given a value somewhere: on the command line or in a config file.
#pragma once

#include "base/environment.hpp"
#include "base/result.hpp"
#include "cli/option.hpp"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

struct Setting {
  const Option* option = nullptr;
  std::string value;   // as Option::apply reads it
  std::string source;  // for --explain: "command line", "job.json:3"
  std::string named;   // for errors: "-np", "job.json:3: \"num-proc\""
};

// What a later setting overrides an earlier one of: the option's name; of -x, with the variable's.
std::string override_key(const Setting& setting);

// Applies settings in order, so that a later one overrides. Those of sbatch and salloc go to
// `batch`, and count for nothing where that is null. Errors name the setting and its source.
Result<void> apply_settings(const std::vector<Setting>& settings, JobSpec& job,
                            BatchSpec* batch = nullptr);

// The JSON of a config file as a flat list of entries, each with its line.
//
// Only the shape is judged here (one object; values are scalars, arrays or objects of scalars; no
// key twice); config_file gives the keys their meaning. "//" and "/* */" comments are allowed.

enum class JsonType { null, boolean, integer, real, string, array, object };

struct JsonScalar {
  std::string key;  // in an object; empty in an array
  int line = 0;
  JsonType type = JsonType::null;
  std::string text;  // "true", "12", "0.5", or the string itself
};

struct JsonEntry {
  std::string key;
  int line = 0;  // of the key, from 1
  JsonType type = JsonType::null;
  std::string text;               // of a scalar
  std::vector<JsonScalar> items;  // of an array or object
};

// `name` stands for the file in errors: "NAME:line:column: not valid JSON: …", "NAME:line: …".
Result<std::vector<JsonEntry>> read_config_json(std::string_view text, const std::string& name);

// The config files of horovodrun, which are YAML.
//
// Of YAML only what they have is read: sections, and below them lines of "key: value" with plain or
// quoted scalars, and comments. A parser of all YAML would be one more library to load at every
// start. Whatever is not of this form is an error, so nothing is read as something else.

struct HorovodConfig {
  std::vector<JsonEntry> entries;  // keys are names of horovodrun's options
  std::vector<std::string> notes;  // keys that horovodrun ignores, too
};

// Whether a file of that name is one: it ends in .yaml or .yml.
bool is_horovod_config(std::string_view name);

// Errors: "NAME:line: …".
Result<HorovodConfig> read_horovod_config(std::string_view text, const std::string& name);

// Config files: which are read, and what their keys set.
//
// docs/config.md is the text for users. The order, a later one overriding an earlier one key by
// key: the site's file, the user's, the one that HVDRUN_CONFIG names, those of --config-file.

struct ConfigSource {
  std::string title;           // "site", "user", "HVDRUN_CONFIG", "--config-file"
  std::filesystem::path file;  // empty: there is none (no HOME, variable not set)
  bool must_exist = false;
  bool was_read = false;
};

// The files to look for, in order. Looks at XDG_CONFIG_HOME, HOME and HVDRUN_CONFIG.
std::vector<ConfigSource> config_sources(const std::filesystem::path& site_file,
                                         const Environment& environment,
                                         const std::vector<std::string>& command_line_files);

struct ConfigSettings {
  std::vector<Setting> settings;
  std::vector<std::string> notes;  // Horovod's keys without effect
};

// Reads a source's file; an absent one that need not exist gives nothing. Sets was_read.
// Errors name the file and, where there is one, the line.
Result<ConfigSettings> read_config_source(ConfigSource& source);

// Reads the text of a config file that errors call `name`: JSON, or Horovod's YAML where the name
// says so. Values are not judged yet.
Result<ConfigSettings> parse_config(std::string_view text, const std::string& name);

}  // namespace hvdrun::cli
