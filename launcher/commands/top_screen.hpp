// The screen of `hvdrun top` as lines of text, from what is known of the job and what the user
// wants to see. Pure functions; they cannot fail.
#pragma once

#include "commands/top_rates.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

enum class TopSort { rank, waiting, step, samples, cpu, memory };

// Returns "rank", "waiting".
std::string_view sort_name(TopSort sort);
std::optional<TopSort> sort_of_name(std::string_view name);
TopSort next_sort(TopSort sort);

struct TopView {
  TopSort sort = TopSort::rank;
  bool folds_hosts = false;
  int selected = 0;     // a rank
  std::size_t top = 0;  // the first row of the table that is shown
};

struct ScreenLine {
  enum class Style { plain, title, selected, warning };
  std::string text;
  Style style = Style::plain;
};

// Returns the lines above the table: what the job is, how far it is, who holds up whom.
std::vector<ScreenLine> top_summary(const TopRates& rates);

// Returns the table: its title, and a line for each rank, or each host. On a screen of fewer
// columns than it needs, it has those of its own that say most. With 0 it has all.
std::vector<ScreenLine> top_table(const TopRates& rates, const TopView& view,
                                  std::size_t columns = 0);

// Returns the ranks in the order of the table's lines; with folded hosts the first of each, -1
// for a host without ranks.
std::vector<int> top_order(const TopRates& rates, const TopView& view);

// Returns summary and table as the lines of a screen of that size, with the selected rank in sight,
// and a last line of keys, or the message. Changes view.top so that it is.
std::vector<ScreenLine> top_screen(const TopRates& rates, TopView& view, std::size_t rows,
                                   std::size_t columns, const std::string& message);

}  // namespace hvdrun
