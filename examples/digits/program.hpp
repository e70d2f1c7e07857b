// What the examples' mains have in common.
#pragma once

#include "model.hpp"
#include "options.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace digits {

// Makes a model with its first weights.
using MakeModel = std::function<std::unique_ptr<Model>(std::uint64_t seed)>;

// Trains on all ranks with what the command line says (`defaults` where it says nothing), prints
// the test accuracy, and returns the exit code.
int run_program(const std::string& name, int argc, char** argv, const MakeModel& make_model,
                Options defaults = {});

}  // namespace digits
