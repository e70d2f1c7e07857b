#include "model.hpp"

#include <cmath>

namespace digits {

Eigen::MatrixXd softmax(const Eigen::MatrixXd& scores) {
  const Eigen::MatrixXd shifted = scores.rowwise() - scores.colwise().maxCoeff();
  const Eigen::MatrixXd powers = shifted.array().exp();
  return powers.array().rowwise() / powers.colwise().sum().array();
}

Sums score(const Eigen::MatrixXd& probabilities, const Dataset& dataset, Samples which) {
  Sums sums;
  for (std::size_t i = 0; i < which.size(); ++i) {
    const int label = dataset.labels[static_cast<std::size_t>(which[i])];
    const auto column = probabilities.col(static_cast<Eigen::Index>(i));
    Eigen::Index guess = 0;
    column.maxCoeff(&guess);
    sums.loss -= std::log(column[label]);
    sums.correct += guess == label ? 1 : 0;
  }
  return sums;
}

Eigen::MatrixXd score_error(Eigen::MatrixXd probabilities, const Dataset& dataset, Samples which) {
  for (std::size_t i = 0; i < which.size(); ++i) {
    const int label = dataset.labels[static_cast<std::size_t>(which[i])];
    probabilities(label, static_cast<Eigen::Index>(i)) -= 1;
  }
  return probabilities;
}

}  // namespace digits
