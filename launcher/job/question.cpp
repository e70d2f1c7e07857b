#include "job/question.hpp"

#include <utility>
#include <vector>

namespace hvdrun {

std::set<std::size_t> Answers::silent() const {
  std::set<std::size_t> silent;
  for (const std::size_t host : asked)
    if (!by_host.contains(host) && !lost.contains(host)) silent.insert(host);
  return silent;
}

Questions::~Questions() {
  while (!open_.empty()) open_.begin()->second->cut();
}

void Questions::take(std::size_t host, AnswerMessage answer) {
  const auto at = open_.find(answer.number);
  if (at != open_.end()) at->second->take(host, std::move(answer));
}

// A question that ends may be asked again at once, or end others.
void Questions::lose(std::size_t host) {
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, question] : open_) numbers.push_back(number);
  for (const std::uint32_t number : numbers)
    if (const auto at = open_.find(number); at != open_.end()) at->second->lose(host);
}

void Question::ask(Questions& questions, QuestionMessage message, std::chrono::milliseconds limit,
                   Done done) {
  drop();
  questions_ = &questions;
  message.number = number_ = ++questions.last_number_;
  questions.open_[number_] = this;
  done_ = std::move(done);
  answers_ = {};
  answers_.asked = questions.agents_.that_can_answer();
  awaited_ = answers_.asked;
  for (const std::size_t host : awaited_)
    questions.agents_.on_host(host).send(FrameType::question, pack(message));
  limit_.start(awaited_.empty() ? std::chrono::milliseconds(0) : limit);
}

void Question::limit(std::chrono::milliseconds left) {
  if (is_open()) limit_.start(left);
}

void Question::take(std::size_t host, AnswerMessage answer) {
  if (!awaited_.contains(host)) return;
  const bool is_last = !answer.more;
  answers_.by_host[host] = std::move(answer);
  if (is_last) awaited_.erase(host);
  end_if_complete();
}

void Question::lose(std::size_t host) {
  if (awaited_.erase(host) > 0) answers_.lost.insert(host);
  end_if_complete();
}

void Question::end_if_complete() {
  if (awaited_.empty()) cut();
}

// `done` may ask again with this object.
void Question::cut() {
  if (!is_open()) return;
  const auto done = std::exchange(done_, {});
  const auto answers = std::exchange(answers_, {});
  drop();
  done(answers);
}

void Question::drop() {
  if (!is_open()) return;
  limit_.cancel();
  std::exchange(questions_, nullptr)->open_.erase(number_);
  done_ = {};
}

}  // namespace hvdrun
