#include "program.hpp"

#include "data_path.hpp"
#include "dataset.hpp"
#include "training.hpp"

#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <stdexcept>

#include <hvd/hvd.hpp>
#include <unistd.h>

namespace digits {
namespace {

constexpr int kExitUsage = 2;

void introduce_rank() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  std::ostringstream line;  // in one write, so that ranks do not mix
  line << "rank " << hvd::rank() << " of " << hvd::size() << " on " << host << ", pid " << getpid()
       << '\n';
  std::cout << line.str() << std::flush;
}

void run(const Options& options, const MakeLearner& make_learner) {
  if (!options.quiet) introduce_rank();
  const std::string path = options.data.empty() ? default_data_path() : options.data;
  const Split split = split_dataset(share_dataset(path), options.patience > 0);
  const auto learner = make_learner(options);
  if (!train(*learner, split, options).empty()) return;  // asked to stop before the end
  const Metrics metrics = evaluate(*learner, split.test);
  hvd::set_metric("accuracy", metrics.accuracy);
  hvd::root_out() << "test accuracy: " << std::fixed << std::setprecision(1)
                  << 100 * metrics.accuracy << " %" << std::endl;
}

// Prints an error that all ranks have once. All ranks wait for that, because the first to exit with
// an error ends the job. If the ranks can no longer communicate, each prints its own error.
int say_once(const std::string& text, int exit_code) {
  const bool says = hvd_rank() == 0;
  if (says) std::cerr << text << std::endl;
  const bool all_have_met = hvd_barrier(nullptr) == HVD_OK;
  if (!says && !all_have_met) std::cerr << text << std::endl;
  return exit_code;
}

}  // namespace

int run_program(const std::string& name, int argc, char** argv, const MakeLearner& make_learner,
                Options options) {
  const std::string prefix = name + ": ";
  try {
    hvd::init();
    parse_options(argc, argv, options);
    if (options.help) {
      hvd::root_out() << usage(name) << std::flush;
    } else {
      run(options, make_learner);
    }
    hvd::shutdown();
    return EXIT_SUCCESS;
  } catch (const UsageError& error) {
    return say_once(prefix + error.what() + '\n' + usage(name), kExitUsage);
  } catch (const std::runtime_error& error) {  // of the data, libhvd or the device
    return say_once(prefix + error.what(), EXIT_FAILURE);
  }
}

}  // namespace digits
