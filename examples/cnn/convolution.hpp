// The parts of a convolutional network that are not matrix products: patches and pooling.
//
// A stack of images is a matrix with a column a sample. A column holds the planes (channels) one
// after the other, each of them side × side pixels, row by row.
#pragma once

#include <vector>

#include <Eigen/Core>

namespace digits {

struct Stack {
  Eigen::Index planes;
  Eigen::Index side;

  Eigen::Index pixels() const { return side * side; }
  Eigen::Index rows() const { return planes * pixels(); }
};

// 3×3 pixels in all planes around each pixel, zeros beyond the border: a column for each pixel of
// each sample (samples × pixels columns, planes × 9 rows). Their product with a matrix of filters
// is the convolution.
Eigen::MatrixXd patches(const Eigen::MatrixXd& images, const Stack& shape);

// The transposed map: adds each patch to the pixels that it was taken from.
Eigen::MatrixXd add_patches(const Eigen::MatrixXd& patches, const Stack& shape);

// From filters × (samples × pixels), as the product gives it, to a stack, and back.
Eigen::MatrixXd to_stack(const Eigen::MatrixXd& product, const Stack& shape);
Eigen::MatrixXd from_stack(const Eigen::MatrixXd& images, const Stack& shape);

// The largest of each 2×2 pixels; `side` must be even. `winners` gets its row in `images`.
using Rows = Eigen::Matrix<Eigen::Index, Eigen::Dynamic, Eigen::Dynamic>;
Eigen::MatrixXd max_pool(const Eigen::MatrixXd& images, const Stack& shape, Rows& winners);

// The transposed map: each value goes to where its maximum was.
Eigen::MatrixXd max_unpool(const Eigen::MatrixXd& pooled, const Rows& winners, const Stack& shape);

}  // namespace digits
