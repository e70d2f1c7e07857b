#pragma once

#include "base/result.hpp"

#include <functional>
#include <string>
#include <thread>

namespace hvdrun {

// Starts a thread that takes no signals: they are for the loop's. Error: "cannot start the thread
// that {does}: …".
Result<std::thread> start_thread(const std::string& does, std::function<void()> body);

}  // namespace hvdrun
