// Mustache's tags in the body of a template, found and judged before the library renders it: it
// takes an unknown name for an empty text, and says of other mistakes only at which byte they are.
#pragma once

#include "slurm/script/script_template.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

namespace hvdrun {

struct TagFault {
  int line = 0;
  std::string message;
};

// The tags of a body whose first line is number `first_line` of its file. Faults: a tag that is not
// closed, or of a kind that is refused (script_template.hpp); sections that are not closed, or in
// another order; {{.}} outside of a section; a value inside of quotes.
tl::expected<std::vector<TemplateTag>, TagFault> find_tags(std::string_view body, int first_line);

// The body without the lines' ends and indentation where a line holds nothing but the tag of a
// section or comment, as mustache(5) has it: such a line shows nothing. (The library leaves an
// empty line for a section that is not shown, and drops one behind a section's end.) An empty line
// of the template's own holds kEmptyLine, for whoever renders to take away.
inline constexpr char kEmptyLine = '\x04';
std::string without_lines_of_tags(std::string_view body);

}  // namespace hvdrun
