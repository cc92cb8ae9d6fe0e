// SPDX-License-Identifier: Apache-2.0
#include "governor/size_fit.h"

#include <algorithm>
#include <cmath>

namespace weir::governor {
namespace {

constexpr double kForget = 0.999;
constexpr double kLevelMemory = 1.0 / 16;
constexpr double kClip = 1.4;          // no sample counts for more than four times too slow
constexpr double kUnit = 1000;         // tokens are counted in thousands, to be of one size with 1
constexpr double kStart = 4;           // of the spread, in squares of what is expected
constexpr double kSpreadMost = 100;    // sizes that never vary would let it grow for ever
constexpr std::int64_t kSettling = 8;  // samples before there is a level to speak of

}  // namespace

SizeFit::Sizes SizeFit::sizes(double input_tokens, double output_tokens) {
  return {1, std::max(input_tokens, 0.0) / kUnit, std::max(output_tokens, 0.0) / kUnit};
}

double SizeFit::expect(double input_tokens, double output_tokens) const {
  const Sizes of = sizes(input_tokens, output_tokens);
  double seconds = 0;
  for (std::size_t i = 0; i < of.size(); ++i) seconds += weights_[i] * of[i];
  return std::max(seconds, mean_seconds_ * 0.05);
}

double SizeFit::add(double seconds, double input_tokens, double output_tokens) {
  seconds = std::max(seconds, 1e-6);
  if (samples_++ == 0) {
    mean_seconds_ = seconds;
    // Half of it is taken for the start, half for the lengths, until they are told apart.
    const Sizes of = sizes(input_tokens, output_tokens);
    const double lengths = of[1] + of[2];
    weights_ = {lengths > 0 ? seconds / 2 : seconds, 0, 0};
    if (lengths > 0) weights_[1] = weights_[2] = seconds / 2 / lengths;
    for (std::size_t i = 0; i < 3; ++i) spread_[i][i] = kStart * seconds * seconds;
    return 0;
  }
  const double expected = expect(input_tokens, output_tokens);
  const double ratio = std::log(seconds / expected);
  const double deviation = samples_ > kSettling ? ratio - level_ : ratio;
  const double weight = std::max(kLevelMemory, 1.0 / static_cast<double>(samples_));
  level_ += (ratio - level_) * weight;
  mean_seconds_ += (seconds - mean_seconds_) * weight;
  Sizes scaled = sizes(input_tokens, output_tokens);
  for (double& each : scaled) each /= expected;
  correct(scaled, std::clamp(deviation, -kClip, kClip), expected);
  return ratio;
}

void SizeFit::correct(const Sizes& scaled, double error, double expected) {
  Sizes along{};
  double across = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) along[i] += spread_[i][j] * scaled[j];
    across += scaled[i] * along[i];
  }
  const double divisor = kForget + across;
  double widest = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    weights_[i] += along[i] / divisor * error;
    for (std::size_t j = 0; j < 3; ++j) spread_[i][j] -= along[i] * along[j] / divisor;
    widest = std::max(widest, spread_[i][i]);
  }
  if (widest / kForget > kSpreadMost * expected * expected) return;
  for (Sizes& row : spread_) {
    for (double& each : row) each /= kForget;
  }
}

}  // namespace weir::governor
