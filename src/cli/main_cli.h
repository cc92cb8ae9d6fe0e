// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <iosfwd>
#include <span>
#include <string>

namespace weir::cli {

/// How a command ended; the process's exit code.
inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kInvalidConfig = 3;

/// Runs `weir ARGS` (without the program's name) to its end and answers the exit code. Results go
/// to `out`, faults and logs to `err`. Threads: call once, from the main thread.
int run(std::span<const std::string> args, std::ostream& out, std::ostream& err);

/// The page docs/reference/cli.md: every command with its options, from the parser itself.
std::string cli_markdown();

}  // namespace weir::cli
