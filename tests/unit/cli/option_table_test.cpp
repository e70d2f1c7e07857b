#include "cli/option_table.hpp"

#include "cli/option_sets.hpp"

#include <set>

#include <gtest/gtest.h>

namespace hvdrun::cli {
namespace {

TEST(OptionTable, NamesAndSpellingsAreUnique) {
  std::set<std::string_view> names;
  std::set<std::string_view> spellings;
  for (const auto& option : option_table()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    for (const auto spelling : option.spellings)
      EXPECT_TRUE(spelling.empty() || spellings.insert(spelling).second) << spelling;
  }
}

TEST(OptionTable, LongSpellingIsTheName) {
  for (const auto& option : option_table()) {
    const auto* dashes = option.name.size() == 1 ? "-" : "--";
    EXPECT_EQ(find_option_by_spelling(dashes + std::string(option.name)), &option) << option.name;
  }
}

TEST(OptionTable, KindDecidesWhetherAValueFollows) {
  for (const auto& option : option_table()) {
    const bool has_no_value = option.kind == ValueKind::flag || option.kind == ValueKind::count ||
                              option.kind == ValueKind::action;
    EXPECT_EQ(takes_value(option), !has_no_value) << option.name;
    EXPECT_FALSE(option.help.empty()) << option.name;
  }
}

TEST(OptionTable, DocumentedDefaultsAreTheJobsDefaults) {
  JobSpec stated;
  for (const auto* name :
       {"bind-to", "gpu-bind", "pmix", "start-timeout", "stdin", "color", "only-rank",
        "on-output-error", "kill-signal", "grace", "exit-timeout", "verbose", "max-restarts"}) {
    const auto* option = find_option_by_name(name);
    ASSERT_NE(option, nullptr) << name;
    EXPECT_TRUE(option->apply(stated, option->default_value)) << name;
  }
  const JobSpec untouched;
  EXPECT_EQ(stated.bind_to, untouched.bind_to);
  EXPECT_EQ(stated.gpu_bind, untouched.gpu_bind);
  EXPECT_EQ(stated.pmix, untouched.pmix);
  EXPECT_EQ(stated.start_timeout, untouched.start_timeout);
  EXPECT_EQ(stated.input.to, untouched.input.to);
  EXPECT_EQ(stated.input.rank, untouched.input.rank);
  EXPECT_EQ(stated.output.color, untouched.output.color);
  EXPECT_EQ(stated.output.only_ranks.has_value(), untouched.output.only_ranks.has_value());
  EXPECT_EQ(stated.output.on_error, untouched.output.on_error);
  EXPECT_EQ(stated.stop.signal, untouched.stop.signal.value_or(SIGTERM));
  EXPECT_EQ(stated.stop.grace, untouched.stop.grace_period());
  EXPECT_EQ(stated.stop.exit_timeout, untouched.stop.exit_timeout);
  EXPECT_EQ(stated.verbosity, untouched.verbosity);
  EXPECT_EQ(stated.max_restarts, untouched.max_restarts);
}

}  // namespace
}  // namespace hvdrun::cli
