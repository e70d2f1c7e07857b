// The command line of the examples, and their common main function: it joins the job, trains,
// prints the test accuracy, and prints an error that all ranks have once.
#pragma once

#include "dataset.hpp"
#include "training.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iomanip>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <hvd/hvd.hpp>
#include <hvd/io.hpp>
#include <hvd/rates.hpp>
#include <unistd.h>

namespace digits {

// An error in the command line.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns "usage: NAME …".
inline std::string usage(const std::string& program) {
  return "usage: " + program +
         " [options]\n"
         "  --epochs N            (20)\n"
         "  --batch N             samples in a step, of all ranks together (64)\n"
         "  --learning-rate X     (0.1)\n"
         "  --scale RULE          none, linear, sqrt, two-thirds: the batch grows with the number\n"
         "                        of ranks, and the rate by this rule (the batch stays the same)\n"
         "  --warmup N            epochs in which the rate rises to its scaled value (0)\n"
         "  --hidden N            units of the hidden layer (64); not of cnn\n"
         "  --patience N          stop after N epochs without a better loss on a tenth of the\n"
         "                        training images that is set aside for it (off)\n"
         "  --checkpoint-dir DIR  save there after each epoch, and before stopping on SIGTERM,\n"
         "                        SIGUSR1 or the end of the job's time\n"
         "  --keep N              newest checkpoints that stay, besides the best (3)\n"
         "  --resume              continue from the newest checkpoint, if there is one; a job\n"
         "                        that hvdrun has restarted always does\n"
         "  --log FILE            one line an epoch, with the time\n"
         "  --seed N              of the first weights and of each epoch's order (1)\n"
         "  --data FILE           CSV, gzipped or not: 64 pixels from 0 to 16 and the label\n"
         "  --quiet               print only the test accuracy\n";
}

template <class T>
T parse_number(std::string_view option, std::string_view text, T least, T most) {
  T value{};
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = code == std::errc() && stop == text.data() + text.size();
  if (!whole || !(value >= least && value <= most)) {
    throw UsageError(std::string(option) + " takes a number from " + std::to_string(least) +
                     " to " + std::to_string(most) + ", not \"" + std::string(text) + '"');
  }
  return value;
}

inline hvd::Scaling parse_rule(std::string_view name) {
  try {
    return hvd::parse_scaling(std::string(name));
  } catch (const hvd::Error& error) {
    throw UsageError(std::string("--scale: ") + error.what());
  }
}

// Sets the options that the command line names, and leaves the rest of `options` as it is. Throws
// UsageError.
inline void parse_options(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    const auto value = [&]() -> std::string_view {
      if (i + 1 == argc) throw UsageError(std::string(option) + " needs a value");
      return argv[++i];
    };
    if (option == "--epochs") {
      options.epochs = parse_number(option, value(), 1, 1'000'000);
    } else if (option == "--batch") {
      options.batch = parse_number(option, value(), 1, 1'000'000);
    } else if (option == "--learning-rate") {
      options.learning_rate = parse_number(option, value(), 1e-6, 10.0);
    } else if (option == "--scale") {
      options.scaling = parse_rule(value());
    } else if (option == "--warmup") {
      options.warmup_epochs = parse_number(option, value(), 0, 1'000'000);
    } else if (option == "--hidden" && options.hidden > 0) {
      options.hidden = parse_number(option, value(), 1, 100'000);
    } else if (option == "--patience") {
      options.patience = parse_number(option, value(), 1, 1'000'000);
    } else if (option == "--checkpoint-dir") {
      options.checkpoint_folder = value();
    } else if (option == "--keep") {
      options.keep = parse_number(option, value(), 1, 1'000'000);
    } else if (option == "--resume") {
      options.resume = true;
    } else if (option == "--log") {
      options.log = value();
    } else if (option == "--seed") {
      options.seed = parse_number<std::uint64_t>(option, value(), 0, UINT64_MAX);
    } else if (option == "--data") {
      options.data = value();
    } else if (option == "--quiet") {
      options.quiet = true;
    } else if (option == "--help") {
      options.help = true;
    } else {
      throw UsageError("unknown option \"" + std::string(option) + '"');
    }
  }
  if (options.resume && options.checkpoint_folder.empty())
    throw UsageError("--resume needs --checkpoint-dir");
}

// Returns the path of the digits in the folder `share` of this program's installation or build.
inline std::string default_data_path() {
  std::error_code ignored;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return (program.parent_path() / DIGITS_DATA).lexically_normal().string();
}

inline void introduce_rank() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::ostringstream line;  // in one write, so that ranks do not mix
  line << "rank " << hvd::rank() << " of " << hvd::size() << " on " << host << ", pid " << getpid()
       << '\n';
  std::cout << line.str() << std::flush;
}

// Makes a learner with its initial weights, from the options that it uses. Throws
// std::runtime_error.
using MakeLearner = std::function<std::unique_ptr<Learner>(const Options& options)>;

inline void train_and_test(const Options& options, const MakeLearner& make_learner) {
  if (!options.quiet) introduce_rank();
  const std::string path = options.data.empty() ? default_data_path() : options.data;
  const auto learner = make_learner(options);
  const Outcome outcome = Training(*learner, path, options).run();
  if (!outcome.stopped.empty()) return;
  hvd::set_metric("accuracy", outcome.test.accuracy);
  hvd::root_out() << "test accuracy: " << std::fixed << std::setprecision(1)
                  << 100 * outcome.test.accuracy << " %" << std::endl;
}

// Prints an error that all ranks have once, and returns the exit code. All ranks wait for that,
// because the first to exit with an error ends the job. If the ranks can no longer communicate,
// each prints its own error.
inline int print_once(const std::string& text, int exit_code) {
  const bool prints = hvd_rank() == 0;
  if (prints) std::cerr << text << std::endl;
  const bool all_have_met = hvd_barrier(nullptr) == HVD_OK;
  if (!prints && !all_have_met) std::cerr << text << std::endl;
  return exit_code;
}

// Trains on all ranks with the options of the command line (otherwise those of `defaults`), prints
// the test accuracy, and returns the exit code.
inline int run_program(const std::string& name, int argc, char** argv,
                       const MakeLearner& make_learner, Options options = {}) {
  constexpr int kExitUsage = 2;
  const std::string prefix = name + ": ";
  try {
    hvd::init();
    parse_options(argc, argv, options);
    if (options.help) {
      hvd::root_out() << usage(name) << std::flush;
    } else {
      train_and_test(options, make_learner);
    }
    hvd::shutdown();
    return EXIT_SUCCESS;
  } catch (const UsageError& error) {
    return print_once(prefix + error.what() + '\n' + usage(name), kExitUsage);
  } catch (const std::runtime_error& error) {  // of the data, libhvd or the device
    return print_once(prefix + error.what(), EXIT_FAILURE);
  }
}

}  // namespace digits
