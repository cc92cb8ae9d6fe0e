// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace weir::governor {

/// How long something takes by how long its texts are: seconds = a + b_in * in + b_out * out,
/// fitted by recursive least squares that forget 0.1 % with each sample.
///
/// What is fitted is the ratio of a time to what was expected of it, so that long calls do not
/// outweigh short ones, and only its deviation from the ratios of late: a provider that becomes
/// slower as a whole changes the ratios, not the fit. Example: 1 s for 1000 tokens in, 2 s for 3000
/// give a = 0.5 s and b_in = 0.5 ms. Bounded: nine numbers and their means.
class SizeFit {
 public:
  /// The logarithm of what it took over what was expected. Units: seconds > 0; tokens >= 0.
  double add(double seconds, double input_tokens, double output_tokens);
  /// What is expected, with the ratios of late left out. Units: seconds; 0 without any sample.
  [[nodiscard]] double expect(double input_tokens, double output_tokens) const;
  [[nodiscard]] std::int64_t samples() const { return samples_; }

 private:
  using Sizes = std::array<double, 3>;

  static Sizes sizes(double input_tokens, double output_tokens);
  void correct(const Sizes& scaled, double error, double expected);

  Sizes weights_{};
  std::array<Sizes, 3> spread_{};
  double mean_seconds_ = 0;
  double level_ = 0;  ///< the mean logarithm of late
  std::int64_t samples_ = 0;
};

}  // namespace weir::governor
