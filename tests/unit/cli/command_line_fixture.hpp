// A fixture to parse command lines. It has a folder with a working directory, site, home and PATH,
// in which there is one program, "prog".
#pragma once

#include "cli/command_line.hpp"
#include "temporary_folder.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace hvdrun::test {

class CommandLineTest : public testing::Test {
 protected:
  CommandLineTest() {
    program_ = folder_.write_program("bin/prog");
    environment_ = {{"PATH", (folder_.path() / "bin").string()},
                    {"HOME", (folder_.path() / "home").string()}};
    system_paths_.site_config_file = folder_.path() / "site/config.json";
    system_paths_.working_directory = folder_.path();
  }

  Result<Invocation> parse(const std::vector<std::string>& args) const {
    return parse_command_line(args, environment_, system_paths_);
  }

  // Returns the job that the words and then "prog" describe. Fails the test if they are refused.
  JobSpec job(std::vector<std::string> args) const {
    args.emplace_back("prog");
    auto invocation = parse(args);
    EXPECT_TRUE(invocation) << invocation.error().message;
    return invocation ? std::move(invocation->spec) : JobSpec{};
  }

  // Returns the error for the words. Fails the test if they are accepted.
  Error error(const std::vector<std::string>& args) const {
    auto invocation = parse(args);
    EXPECT_FALSE(invocation);
    return invocation ? Error{} : std::move(invocation).error();
  }

  TemporaryFolder folder_;
  std::filesystem::path program_;
  Environment environment_;
  SystemPaths system_paths_;
};

}  // namespace hvdrun::test
