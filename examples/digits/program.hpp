// What the examples' mains have in common.
#pragma once

#include "learner.hpp"
#include "options.hpp"

#include <functional>
#include <memory>
#include <string>

namespace digits {

// Makes a network with its first weights, ready to learn, from the options that concern it. Throws
// std::runtime_error.
using MakeLearner = std::function<std::unique_ptr<Learner>(const Options& options)>;

// Trains on all ranks with what the command line says (`defaults` where it says nothing), prints
// the test accuracy, and returns the exit code.
int run_program(const std::string& name, int argc, char** argv, const MakeLearner& make_learner,
                Options defaults = {});

}  // namespace digits
