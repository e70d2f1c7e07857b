#include "agent/pmix_names.hpp"

#include <utility>

namespace hvdrun {

void PmixNames::ask(NamesRequest request, std::optional<std::chrono::seconds> timeout,
                    Answer answer) {
  request.number = next_number_++;
  std::unique_ptr<Timer> timer;
  if (timeout) {
    timer = std::make_unique<Timer>(loop_, [this, number = request.number] {
      send_(FrameType::names, kToLauncher,
            pack_names_request({number, NamesRequest::Operation::expire, false, false, {}}));
    });
    timer->start(*timeout);
  }
  open_.emplace(request.number, Open{std::move(answer), std::move(timer)});
  send_(FrameType::names, kToLauncher, pack_names_request(request));
}

Result<void> PmixNames::on_answer(std::string_view payload) {
  HVD_TRY(const auto answer, parse_names_answer(payload));
  const auto at = open_.find(answer.number);
  if (at == open_.end())
    return fail("the launcher sent the answer to a request for names that this host did not make");
  const auto open = std::move(at->second);
  open_.erase(at);
  open.answer(answer.status, answer.values);
  return {};
}

}  // namespace hvdrun
