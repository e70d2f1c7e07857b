#include "agent/rank_inputs.hpp"

#include "agent/pseudo_terminal.hpp"

#include <cstdint>
#include <string_view>
#include <utility>

namespace hvdrun {

void RankInputs::add(const RankProcess& process, RankPipes& pipes) {
  const int rank = process.rank;
  if (pipes.terminal) terminals_.emplace(rank, Terminal{process.pid, std::move(pipes.terminal)});
  if (!pipes.input) return;
  writers_.try_emplace(rank, loop_, std::move(pipes.input), [this, rank](std::size_t bytes) {
    link_.send(
        FrameType::input_credit, kToLauncher,
        pack_input_credit({static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(bytes)}));
  });
}

Result<void> RankInputs::take(const Frame& frame) {
  if (frame.type == FrameType::input) {
    HVD_TRY(const auto input, parse_input(frame.payload));
    write(input);
  } else if (frame.type == FrameType::input_closed) {
    HVD_TRY(const auto rank, parse_number(frame.payload));
    close(static_cast<int>(rank));
  } else {
    HVD_TRY(const auto window, parse_window(frame.payload));
    resize(window);
  }
  return {};
}

void RankInputs::write(const InputMessage& input) {
  const auto rank = static_cast<int>(input.rank);
  const auto writer = writers_.find(rank);
  if (writer == writers_.end()) return;
  std::string_view bytes = input.bytes;
  if (const auto terminal = terminals_.find(rank); terminal != terminals_.end()) {
    const auto& [pid, fd] = terminal->second;
    const auto key = find_suspend_key(fd.get(), pid, bytes);
    if (key != std::string_view::npos) {
      writer->second.write(bytes.substr(0, key));
      bytes.remove_prefix(key + 1);
      link_.send(FrameType::suspend, kToLauncher, {});
      link_.send(FrameType::input_credit, kToLauncher, pack_input_credit({input.rank, 1}));
    }
  }
  writer->second.write(bytes);
}

std::uint64_t RankInputs::taken(int rank) const {
  const auto writer = writers_.find(rank);
  return writer == writers_.end() || terminals_.contains(rank) ? 0 : writer->second.taken();
}

void RankInputs::close(int rank) {
  if (const auto writer = writers_.find(rank); writer != writers_.end()) writer->second.close();
}

void RankInputs::close_all() {
  for (auto& [rank, writer] : writers_) writer.close();
}

void RankInputs::resize(const WindowMessage& window) {
  const auto terminal = terminals_.find(static_cast<int>(window.rank));
  if (terminal != terminals_.end()) set_window_size(terminal->second.fd.get(), window.size);
}

void RankInputs::ask_to_redraw() const {
  for (const auto& [rank, terminal] : terminals_) hvdrun::ask_to_redraw(terminal.fd.get());
}

}  // namespace hvdrun
