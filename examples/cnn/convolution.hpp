// The parts of a convolutional network that are not matrix products: patches and pooling.
//
// A stack of images is a matrix with one column per sample. A column has the planes (channels) one
// after the other, each with side × side pixels, row by row.
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

// Returns the 3×3 pixels in all planes around each pixel, with zeros beyond the border: a column
// for each pixel of each sample (samples × pixels columns, planes × 9 rows). Their product with a
// matrix of filters is the convolution.
Eigen::MatrixXd patches(const Eigen::MatrixXd& images, const Stack& shape);

// The transposed map: adds each patch to the pixels that it was taken from.
Eigen::MatrixXd add_patches(const Eigen::MatrixXd& patches, const Stack& shape);

// Rearranges a product of filters × (samples × pixels) to a stack, and back.
Eigen::MatrixXd to_stack(const Eigen::MatrixXd& product, const Stack& shape);
Eigen::MatrixXd from_stack(const Eigen::MatrixXd& images, const Stack& shape);

// Returns the largest of each 2×2 pixels, and writes its row in `images` to `winners`. `side` must
// be even.
using Rows = Eigen::Matrix<Eigen::Index, Eigen::Dynamic, Eigen::Dynamic>;
Eigen::MatrixXd max_pool(const Eigen::MatrixXd& images, const Stack& shape, Rows& winners);

// The transposed map: adds each value at the position of its maximum.
Eigen::MatrixXd max_unpool(const Eigen::MatrixXd& pooled, const Rows& winners, const Stack& shape);

}  // namespace digits
