// Parses any text as a template of a batch script. An error must be one line that names the
// template's line. Hostile values must not add a line to the rendered script.
#include "expect.hpp"
#include "slurm/render.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace {

using hvdrun::VariableType;

// A value that would end a line, a quote or a tag if it were not quoted.
constexpr std::string_view kHostile = "a'b\"c\n#SBATCH --x\\$(id)`id`;{{y}}\x01\x02\x03\x04";

hvdrun::TemplateValue hostile(VariableType type) {
  switch (type) {
    case VariableType::flag:
      return true;
    case VariableType::number:
      return std::string("7");
    case VariableType::list:
      return std::vector<std::string>{std::string(kHostile)};
    case VariableType::word:
    case VariableType::text:
      break;
  }
  return std::string(kHostile);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto script = hvdrun::parse_template(text, "t", "file");
  if (!script) {
    FUZZ_EXPECT(script.error().message.rfind("file:", 0) == 0);
    FUZZ_EXPECT(script.error().message.find('\n') == std::string::npos);
    FUZZ_EXPECT(script.error().exit_code == hvdrun::kExitUsage);
    return 0;
  }
  if (const auto own = hvdrun::own_values(*script, {}); !own)
    FUZZ_EXPECT(own.error().message.find('\n') == std::string::npos);
  hvdrun::TemplateValues values;
  for (const auto& variable : script->variables) values[variable.name] = hostile(variable.type);
  for (const auto& variable : hvdrun::job_variables())
    values[std::string(variable.name)] = hostile(variable.type);
  const auto rendered = hvdrun::render_script(*script, values);
  if (!rendered) {
    FUZZ_EXPECT(rendered.error().message.find('\n') == std::string::npos);
    return 0;
  }
  const auto lines = [](std::string_view of) { return std::count(of.begin(), of.end(), '\n'); };
  FUZZ_EXPECT(lines(*rendered) <= lines(script->body) + 1);
  return 0;
}
