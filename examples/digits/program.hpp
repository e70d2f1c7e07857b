// The common part of the examples' main functions.
#pragma once

#include "learner.hpp"
#include "options.hpp"

#include <functional>
#include <memory>
#include <string>

namespace digits {

// Makes a learner with its initial weights, from the options that it uses. Throws
// std::runtime_error.
using MakeLearner = std::function<std::unique_ptr<Learner>(const Options& options)>;

// Trains on all ranks with the options of the command line (otherwise those of `defaults`), prints
// the test accuracy, and returns the exit code.
int run_program(const std::string& name, int argc, char** argv, const MakeLearner& make_learner,
                Options defaults = {});

}  // namespace digits
