// Starts threads with the right signal mask. Any thread.
#pragma once

#include "common/result.hpp"

#include <functional>
#include <initializer_list>
#include <string>
#include <thread>

namespace common {

// Starts a thread on which the signals of SignalsBlocked are blocked, but for those in `open`. So
// the program's handlers run on the program's own threads. Error: "cannot start the thread that
// {does}: …", because there are too many threads, or no memory.
Result<std::thread, std::string> start_thread(const std::string& does, std::function<void()> body,
                                              std::initializer_list<int> open = {});

}  // namespace common
