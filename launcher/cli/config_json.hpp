// The JSON of a config file as a flat list of entries, each with its line. A pure function, for any
// thread.
//
// It checks only the shape: one object; values are scalars, arrays or objects of scalars; no key
// twice. cli/config.hpp gives the keys their meaning. "//" and "/* */" comments are allowed.
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun::cli {

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

// Reads the text. `name` is the file's, for errors: "NAME:line:column: not valid JSON: …",
// "NAME:line: …".
Result<std::vector<JsonEntry>> read_config_json(std::string_view text, const std::string& name);

}  // namespace hvdrun::cli
