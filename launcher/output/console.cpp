#include "output/console.hpp"

#include <algorithm>
#include <utility>

namespace hvdrun {

Result<std::unique_ptr<Console>> Console::make(const OutputSpec& spec, Place out, Place err) {
  std::optional<LabelTemplate> label;
  if (!spec.label.empty()) {
    HVD_TRY(label, parse_label(spec.label));
  }
  return std::unique_ptr<Console>(
      new Console(std::move(label), spec, std::move(out), std::move(err)));
}

Console::Console(std::optional<LabelTemplate> label, const OutputSpec& spec, Place out, Place err)
    : label_(std::move(label)),
      only_ranks_(spec.only_ranks),
      out_(spec, std::move(out)),
      apart_(spec.terminal_rank) {
  if (err.queue != nullptr) err_.emplace(spec, std::move(err));
}

void Console::begin(const Placement& placement) {
  show_folded();
  const auto label = label_ ? *label_ : *parse_label(default_label(placement.size));
  out_.labels = Labels(label, placement, out_.options);
  if (err_) err_->labels = Labels(label, placement, err_->options);
  const auto size = static_cast<std::size_t>(placement.size);
  is_closed_.assign(size * 2, false);
  if (shown_.size() == size) return begin_folders();
  assemblers_.clear();
  shown_.clear();
  waiting_.clear();
  is_waiting_.clear();
  assemblers_.reserve(size * 2);
  shown_.reserve(size);
  for (int rank = 0; rank < placement.size; ++rank) add_streams(rank);
  begin_folders();
}

void Console::add_streams(int rank) {
  assemblers_.emplace_back(rank, Stream::out);
  assemblers_.emplace_back(rank, Stream::err);
  is_waiting_.resize(assemblers_.size(), false);
  shown_.push_back(!only_ranks_ || only_ranks_->contains(rank));
}

void Console::add(const std::string& host, const RankPlacement& rank) {
  out_.labels.add(host, rank);
  if (err_) err_->labels.add(host, rank);
  add_streams(rank.rank);
  is_closed_.resize(assemblers_.size(), false);
  const int streams = streams_to_fold(shown_.size() - 1);
  if (out_.folder) out_.folder->add_rank(streams);
  if (err_ && err_->folder) err_->folder->add_rank(streams);
}

int Console::streams_to_fold(std::size_t rank) const {
  const bool prints = shown_[rank] && (!apart_ || static_cast<std::size_t>(*apart_) != rank);
  return !prints ? 0 : err_ ? 1 : 2;
}

void Console::begin_folders() {
  std::vector<int> streams;
  for (std::size_t rank = 0; rank < shown_.size(); ++rank) streams.push_back(streams_to_fold(rank));
  if (out_.folder) out_.folder->begin(streams);
  if (err_ && err_->folder) err_->folder->begin(std::move(streams));
}

void Console::plan_folders() {
  for (auto* each : {&out_, err_ ? &*err_ : nullptr}) {
    if (each == nullptr || !each->folder) continue;
    const auto next = each->folder->next_tick();
    if (next && (!next_tick_ || *next_tick_ > *next)) next_tick_ = next;
  }
}

void Console::show_folded() {
  for (auto* each : {&out_, err_ ? &*err_ : nullptr})
    if (each != nullptr && each->folder) each->folder->flush();
}

LineAssembler* Console::assembler(int rank, Stream stream) {
  const auto index = static_cast<std::size_t>(rank);
  if (rank < 0 || index >= shown_.size() || !shown_[index]) return nullptr;
  return &assemblers_[index * 2 + (stream == Stream::err ? 1 : 0)];
}

bool Console::shows_with_notes(int rank, Stream stream) const {
  const auto index = static_cast<std::size_t>(rank);
  if (rank < 0 || index >= shown_.size() || !shown_[index]) return false;
  // Both streams may have the same terminal, though it is one place only for a shared descriptor.
  if (stream == Stream::err && err_) return err_->is_terminal;
  return out_.is_terminal || (out_.is_file && !err_);
}

void Console::write(int rank, Stream stream, std::string_view bytes, OutputTime time, Steady now) {
  LineAssembler* lines = assembler(rank, stream);
  if (lines == nullptr) return;
  now_ = now;
  auto to = outlet(stream);
  lines->feed(to, bytes, time, now);
  if (to.folder != nullptr) plan_folders();
  if (!lines->waits()) return;
  const auto index = static_cast<std::size_t>(lines - assemblers_.data());
  if (!is_waiting_[index]) {
    is_waiting_[index] = true;
    waiting_.push_back(index);
  }
  const Steady soonest = now + LineAssembler::kQuiet;
  if (!next_tick_ || *next_tick_ > soonest) next_tick_ = soonest;
}

void Console::close(int rank, Stream stream) {
  LineAssembler* lines = assembler(rank, stream);
  if (lines == nullptr) return;
  auto to = outlet(stream);
  lines->close(to);
  const auto index = static_cast<std::size_t>(lines - assemblers_.data());
  if (to.folder == nullptr || is_closed_[index]) return;
  is_closed_[index] = true;
  to.folder->close(rank);
  plan_folders();
}

void Console::tick(Steady now, bool held_back) {
  if (!next_tick_ || now < *next_tick_) return;
  now_ = now;
  for (auto* each : {&out_, err_ ? &*err_ : nullptr})
    if (each != nullptr && each->folder) each->folder->tick(now);
  // A late call means that hvdrun was stopped or busy. The rest of a line may have arrived
  // meanwhile, so the loop gets one more turn to read it.
  const bool late = now - *next_tick_ > LineAssembler::kQuiet / 2;
  if (held_back || (late && !postponed_)) {
    postponed_ = true;
    quiet_from_ = now;
    next_tick_ = now + LineAssembler::kQuiet;
    return plan_folders();
  }
  postponed_ = false;
  next_tick_.reset();
  std::erase_if(waiting_, [&](std::size_t index) {
    const Stream stream = index % 2 == 0 ? Stream::out : Stream::err;
    auto to = outlet(stream);
    LineAssembler& lines = assemblers_[index];
    const auto due = lines.due(to, quiet_from_);
    if (due && *due > now) {
      next_tick_ = next_tick_ ? std::min(*next_tick_, *due) : *due;
      return false;
    }
    if (due) lines.show_unfinished(to, now);
    is_waiting_[index] = false;
    return true;
  });
  plan_folders();
}

}  // namespace hvdrun
