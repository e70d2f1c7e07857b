#include "options.hpp"

#include <charconv>
#include <string_view>

namespace digits {
namespace {

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

hvd::Scaling parse_rule(const std::string& name) {
  try {
    return hvd::parse_scaling(name);
  } catch (const hvd::Error& error) {
    throw UsageError(std::string("--scale: ") + error.what());
  }
}

}  // namespace

std::string usage(const std::string& program) {
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
         "  --resume              go on from the newest checkpoint, if there is one; a job that\n"
         "                        hvdrun has restarted always does\n"
         "  --log FILE            one line an epoch, with the time\n"
         "  --seed N              of the first weights and of each epoch's order (1)\n"
         "  --data FILE           CSV, gzipped or not: 64 pixels from 0 to 16 and the label\n"
         "  --quiet               print only the test accuracy\n";
}

void parse_options(int argc, char** argv, Options& options) {
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
      options.scaling = parse_rule(std::string(value()));
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

}  // namespace digits
