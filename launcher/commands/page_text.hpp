// A page of the documents, which is Markdown, as text for a terminal. A pure function.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hvdrun {

// Returns the page with lines of at most `width` columns: paragraphs and lists are filled, links
// have only their text. A table that is too wide becomes a block for each row, with the titles of
// the columns. Blocks of code are indented and never filled.
std::string page_text(std::string_view page, std::size_t width);

// Returns the page's title: the text of its first heading.
std::string page_title(std::string_view page);

}  // namespace hvdrun
