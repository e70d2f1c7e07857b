#include "common/signal_abbreviation.hpp"

#include <csignal>

namespace common {

const char* signal_abbreviation(int signal) {
#define HVD_SIGNAL(name) \
  case SIG##name:        \
    return #name;
  switch (signal) {
    HVD_SIGNAL(HUP)
    HVD_SIGNAL(INT)
    HVD_SIGNAL(QUIT)
    HVD_SIGNAL(ILL)
    HVD_SIGNAL(TRAP)
    HVD_SIGNAL(ABRT)
    HVD_SIGNAL(BUS)
    HVD_SIGNAL(FPE)
    HVD_SIGNAL(KILL)
    HVD_SIGNAL(USR1)
    HVD_SIGNAL(SEGV)
    HVD_SIGNAL(USR2)
    HVD_SIGNAL(PIPE)
    HVD_SIGNAL(ALRM)
    HVD_SIGNAL(TERM)
    HVD_SIGNAL(STKFLT)
    HVD_SIGNAL(CHLD)
    HVD_SIGNAL(CONT)
    HVD_SIGNAL(STOP)
    HVD_SIGNAL(TSTP)
    HVD_SIGNAL(TTIN)
    HVD_SIGNAL(TTOU)
    HVD_SIGNAL(URG)
    HVD_SIGNAL(XCPU)
    HVD_SIGNAL(XFSZ)
    HVD_SIGNAL(VTALRM)
    HVD_SIGNAL(PROF)
    HVD_SIGNAL(WINCH)
    HVD_SIGNAL(POLL)
    HVD_SIGNAL(PWR)
    HVD_SIGNAL(SYS)
    default:
      return nullptr;
  }
#undef HVD_SIGNAL
}

}  // namespace common
