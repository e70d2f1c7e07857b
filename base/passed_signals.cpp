#include "base/passed_signals.hpp"

#include <algorithm>
#include <csignal>

namespace hvdrun {

const std::vector<int>& passed_signals() {
  static const std::vector<int> signals = [] {
    std::vector<int> all{SIGUSR1, SIGUSR2, SIGURG, SIGALRM, SIGPWR};
    for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) all.push_back(signal);
    return all;
  }();
  return signals;
}

bool is_stop_signal(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP;
}

const std::vector<int>& step_signals() {
  static const std::vector<int> signals = [] {
    const std::vector<int> others{SIGKILL, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGCONT, SIGCHLD,
                                  SIGPIPE, SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,  SIGTRAP, SIGSYS};
    std::vector<int> all;
    for (int signal = 1; signal <= SIGRTMAX; ++signal)
      if ((signal < SIGSYS + 1 || signal >= SIGRTMIN) &&
          std::ranges::find(others, signal) == others.end())
        all.push_back(signal);
    return all;
  }();
  return signals;
}

}  // namespace hvdrun
