#include "convolution.hpp"

namespace digits {
namespace {

constexpr Eigen::Index kReach = 1;  // of a 3×3 filter
constexpr Eigen::Index kTaps = 9;

// Calls visit(row in the image, row in the patch) for the taps around pixel (y, x) that lie inside.
template <class Visit>
void for_each_tap(const Stack& shape, Eigen::Index y, Eigen::Index x, Visit visit) {
  for (Eigen::Index plane = 0; plane < shape.planes; ++plane) {
    Eigen::Index tap = plane * kTaps;
    for (Eigen::Index from_y = y - kReach; from_y <= y + kReach; ++from_y) {
      for (Eigen::Index from_x = x - kReach; from_x <= x + kReach; ++from_x, ++tap) {
        const bool inside =
            from_y >= 0 && from_y < shape.side && from_x >= 0 && from_x < shape.side;
        if (inside) visit(plane * shape.pixels() + from_y * shape.side + from_x, tap);
      }
    }
  }
}

// Calls visit(column of the patch, sample, y, x) for every pixel of every sample.
template <class Visit>
void for_each_pixel(Eigen::Index samples, const Stack& shape, Visit visit) {
  Eigen::Index column = 0;
  for (Eigen::Index sample = 0; sample < samples; ++sample) {
    for (Eigen::Index y = 0; y < shape.side; ++y) {
      for (Eigen::Index x = 0; x < shape.side; ++x) visit(column++, sample, y, x);
    }
  }
}

}  // namespace

Eigen::MatrixXd patches(const Eigen::MatrixXd& images, const Stack& shape) {
  Eigen::MatrixXd result =
      Eigen::MatrixXd::Zero(shape.planes * kTaps, images.cols() * shape.pixels());
  for_each_pixel(images.cols(), shape, [&](auto column, auto sample, auto y, auto x) {
    for_each_tap(shape, y, x,
                 [&](auto row, auto tap) { result(tap, column) = images(row, sample); });
  });
  return result;
}

Eigen::MatrixXd add_patches(const Eigen::MatrixXd& patches, const Stack& shape) {
  const Eigen::Index samples = patches.cols() / shape.pixels();
  Eigen::MatrixXd result = Eigen::MatrixXd::Zero(shape.rows(), samples);
  for_each_pixel(samples, shape, [&](auto column, auto sample, auto y, auto x) {
    for_each_tap(shape, y, x,
                 [&](auto row, auto tap) { result(row, sample) += patches(tap, column); });
  });
  return result;
}

Eigen::MatrixXd to_stack(const Eigen::MatrixXd& product, const Stack& shape) {
  Eigen::MatrixXd result(shape.rows(), product.cols() / shape.pixels());
  for (Eigen::Index sample = 0; sample < result.cols(); ++sample) {
    const auto own = product.middleCols(sample * shape.pixels(), shape.pixels());
    Eigen::Map<Eigen::MatrixXd>(result.col(sample).data(), shape.pixels(), shape.planes) =
        own.transpose();
  }
  return result;
}

Eigen::MatrixXd from_stack(const Eigen::MatrixXd& images, const Stack& shape) {
  Eigen::MatrixXd result(shape.planes, images.cols() * shape.pixels());
  for (Eigen::Index sample = 0; sample < images.cols(); ++sample) {
    const Eigen::Map<const Eigen::MatrixXd> own(images.col(sample).data(), shape.pixels(),
                                                shape.planes);
    result.middleCols(sample * shape.pixels(), shape.pixels()) = own.transpose();
  }
  return result;
}

Eigen::MatrixXd max_pool(const Eigen::MatrixXd& images, const Stack& shape, Rows& winners) {
  const Stack half{shape.planes, shape.side / 2};
  Eigen::MatrixXd result(half.rows(), images.cols());
  winners.resize(half.rows(), images.cols());
  for (Eigen::Index sample = 0; sample < images.cols(); ++sample) {
    for (Eigen::Index to = 0; to < half.rows(); ++to) {
      const Eigen::Index plane = to / half.pixels();
      const Eigen::Index y = to % half.pixels() / half.side;
      const Eigen::Index x = to % half.side;
      const Eigen::Index corner = plane * shape.pixels() + 2 * y * shape.side + 2 * x;
      Eigen::Index best = corner;
      for (const Eigen::Index from : {corner + 1, corner + shape.side, corner + shape.side + 1}) {
        if (images(from, sample) > images(best, sample)) best = from;
      }
      winners(to, sample) = best;
      result(to, sample) = images(best, sample);
    }
  }
  return result;
}

Eigen::MatrixXd max_unpool(const Eigen::MatrixXd& pooled, const Rows& winners, const Stack& shape) {
  Eigen::MatrixXd result = Eigen::MatrixXd::Zero(shape.rows(), pooled.cols());
  for (Eigen::Index sample = 0; sample < pooled.cols(); ++sample) {
    for (Eigen::Index row = 0; row < pooled.rows(); ++row)
      result(winners(row, sample), sample) += pooled(row, sample);
  }
  return result;
}

}  // namespace digits
