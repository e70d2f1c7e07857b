#include "convolution.hpp"

#include <gtest/gtest.h>

namespace digits {
namespace {

constexpr Eigen::Index kTaps = 9;

// Returns two samples of two planes of 4×4 pixels. All values differ.
const Stack kShape{2, 4};
Eigen::MatrixXd images() {
  Eigen::MatrixXd result(kShape.rows(), 2);
  for (Eigen::Index i = 0; i < result.size(); ++i) result(i) = static_cast<double>((i * 7) % 64);
  return result;
}

TEST(Patches, HoldTheNeighboursOfEachPixelAndZerosOutside) {
  const Eigen::MatrixXd patch = patches(images(), kShape);
  ASSERT_EQ(patch.rows(), kShape.planes * kTaps);
  ASSERT_EQ(patch.cols(), 2 * kShape.pixels());
  // Pixel (1, 2) of plane 1 of sample 1 is in the middle of its patch, with its neighbours around.
  const Eigen::Index column = kShape.pixels() + 1 * kShape.side + 2;
  EXPECT_EQ(patch(kTaps + 4, column), images()(kShape.pixels() + 6, 1));
  EXPECT_EQ(patch(kTaps + 0, column), images()(kShape.pixels() + 1, 1));
  EXPECT_EQ(patch(kTaps + 8, column), images()(kShape.pixels() + 11, 1));
  // The upper left pixel of the corner's patch is outside the image.
  EXPECT_EQ(patch(0, 0), 0);
  EXPECT_EQ(patch(4, 0), images()(0, 0));
}

// If <Ax, y> = <x, Aᵀy> for all x and y, the second map is the transpose of the first.
TEST(Patches, AddPatchesIsTheTransposeOfPatches) {
  const Eigen::MatrixXd x = images();
  Eigen::MatrixXd y(kShape.planes * kTaps, x.cols() * kShape.pixels());
  for (Eigen::Index i = 0; i < y.size(); ++i) y(i) = static_cast<double>((i * 5) % 17);
  EXPECT_EQ(patches(x, kShape).cwiseProduct(y).sum(), x.cwiseProduct(add_patches(y, kShape)).sum());
}

TEST(Stacks, RoundTripThroughTheOrderOfTheProduct) {
  const Eigen::MatrixXd product = from_stack(images(), kShape);
  EXPECT_EQ(product.rows(), kShape.planes);
  EXPECT_EQ(product(1, kShape.pixels() + 3), images()(kShape.pixels() + 3, 1));
  EXPECT_EQ(to_stack(product, kShape), images());
}

TEST(MaxPool, KeepsTheLargestOfFourAndItsPosition) {
  Rows winners;
  const Eigen::MatrixXd pooled = max_pool(images(), kShape, winners);
  ASSERT_EQ(pooled.rows(), kShape.rows() / 4);
  for (Eigen::Index sample = 0; sample < 2; ++sample) {
    for (Eigen::Index row = 0; row < pooled.rows(); ++row)
      EXPECT_EQ(pooled(row, sample), images()(winners(row, sample), sample));
  }
  // Rows 2 and 3, columns 0 and 1 of plane 1.
  const Eigen::Index corner = kShape.pixels() + 8;
  const auto image = images();
  EXPECT_EQ(pooled(4 + 2, 0), std::max({image(corner, 0), image(corner + 1, 0),
                                        image(corner + 4, 0), image(corner + 5, 0)}));
  const Eigen::MatrixXd spread = max_unpool(pooled, winners, kShape);
  EXPECT_EQ(spread.sum(), pooled.sum());
  EXPECT_EQ(spread.cwiseProduct(image).sum(), pooled.cwiseProduct(pooled).sum());
}

}  // namespace
}  // namespace digits
