// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weir/result.h"

namespace weir::cli {

/// A subcommand as completion scripts know it.
struct CommandWords {
  std::string name;
  std::string description;
  std::vector<std::string> words;  ///< its options and its own subcommands
};

/// The completion script of a shell (bash, zsh or fish). Errors: unsupported for another shell.
Result<std::string> completion_script(std::string_view shell,
                                      std::span<const CommandWords> commands);

}  // namespace weir::cli
