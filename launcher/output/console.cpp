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
  failed_at_.assign(size, std::nullopt);
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
  failed_at_.emplace_back();
  for_folders([this](const Face& place, LineFolder& folder) {
    folder.add_rank(open_streams(place, shown_.size() - 1));
  });
}

std::vector<int> Console::open_streams(const Face& place) const {
  std::vector<int> open;
  for (std::size_t rank = 0; rank < shown_.size(); ++rank)
    open.push_back(open_streams(place, rank));
  return open;
}

int Console::open_streams(const Face& place, std::size_t rank) const {
  if (!shown_[rank] || (apart_ && static_cast<std::size_t>(*apart_) == rank)) return 0;
  int count = 0;
  for (const Stream stream : {Stream::out, Stream::err})
    if (&face(stream) == &place && !is_closed_[assembler_of(rank, stream)]) ++count;
  return count;
}

void Console::for_folders(const std::function<void(const Face& place, LineFolder& folder)>& call) {
  for (auto* place : {&out_, err_ ? &*err_ : nullptr}) {
    if (place == nullptr) continue;
    for (auto* folder : {&place->folder, &place->failures})
      if (*folder) call(*place, **folder);
  }
}

void Console::begin_folders() {
  for_folders([this](const Face& place, LineFolder& folder) { folder.begin(open_streams(place)); });
}

LineFolder& Console::made(std::optional<LineFolder>& folder, Face& place, LineFolder::For use) {
  if (!folder) {
    folder.emplace(place.screen, place.labels, use);
    folder->begin(open_streams(place));
  }
  return *folder;
}

LineAssembler::Outlet Console::outlet(std::size_t rank, Stream stream) {
  auto& place = face(stream);
  LineAssembler::Outlet outlet{place.screen, place.labels, held_, nullptr, now_};
  if (!place.labels.can_name_several()) return outlet;
  if (failed_at_[rank] && &place == &face(Stream::err))
    outlet.folder = &made(place.failures, place, LineFolder::For::failures);
  else if (place.folds_from && shown_.size() >= *place.folds_from)
    outlet.folder = &made(place.folder, place,
                          place.is_terminal ? LineFolder::For::terminal : LineFolder::For::file);
  return outlet;
}

void Console::begin_failure(int rank, Steady now) {
  auto& place = face(Stream::err);
  if (!place.folds_failures || !place.labels.can_name_several()) return;
  if (place.folder) place.folder->show_lines_of(rank);
  failed_at_[static_cast<std::size_t>(rank)] = now;
}

// A rank that has caught an exception prints as before.
void Console::end_failure(std::size_t rank) {
  failed_at_[rank].reset();
  if (auto& failures = face(Stream::err).failures) failures->show_lines_of(static_cast<int>(rank));
}

void Console::plan_folders() {
  for_folders([this](const Face&, LineFolder& folder) {
    const auto next = folder.next_tick();
    if (next && (!next_tick_ || *next_tick_ > *next)) next_tick_ = next;
  });
}

void Console::show_folded() {
  for_folders([](const Face&, LineFolder& folder) { folder.flush(); });
}

LineAssembler* Console::assembler(int rank, Stream stream) {
  const auto index = static_cast<std::size_t>(rank);
  if (rank < 0 || index >= shown_.size() || !shown_[index]) return nullptr;
  return &assemblers_[assembler_of(index, stream)];
}

bool Console::shows_with_notes(int rank, Stream stream) const {
  const auto index = static_cast<std::size_t>(rank);
  if (rank < 0 || index >= shown_.size() || !shown_[index]) return false;
  return shows_notes(face(stream));
}

std::size_t Console::folded_with_notes() const {
  std::size_t folded = 0;
  for (const auto* place : {&out_, err_ ? &*err_ : nullptr}) {
    if (place == nullptr || !shows_notes(*place)) continue;
    for (const auto* folder : {&place->folder, &place->failures})
      if (*folder) folded += (*folder)->folded();
  }
  return folded;
}

std::size_t Console::bytes_after(int rank) const {
  const auto& place = face(Stream::err);
  std::size_t bytes = 0;
  for (const auto* folder : {&place.folder, &place.failures})
    if (*folder) bytes += (*folder)->bytes_after(rank);
  return bytes;
}

void Console::write(int rank, Stream stream, std::string_view bytes, OutputTime time, Steady now) {
  LineAssembler* lines = assembler(rank, stream);
  if (lines == nullptr) return;
  now_ = now;
  const auto number = static_cast<std::size_t>(rank);
  if (failed_at_[number] && now - *failed_at_[number] > LineFolder::kTogether) end_failure(number);
  auto to = outlet(number, stream);
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
  const auto number = static_cast<std::size_t>(rank);
  auto to = outlet(number, stream);
  lines->close(to);
  const auto index = assembler_of(number, stream);
  if (is_closed_[index]) return;
  is_closed_[index] = true;
  auto& place = face(stream);
  if (place.folder) place.folder->close(rank);
  if (place.failures) place.failures->close(rank);
  plan_folders();
}

void Console::tick(Steady now, bool held_back) {
  if (!next_tick_ || now < *next_tick_) return;
  now_ = now;
  for_folders([now](const Face&, LineFolder& folder) { folder.tick(now); });
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
    auto to = outlet(index / 2, stream);
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
