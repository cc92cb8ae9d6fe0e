// SPDX-License-Identifier: Apache-2.0
#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weir::cli {
namespace {

std::vector<std::string> names(std::span<const CommandWords> commands) {
  std::vector<std::string> all;
  for (const auto& command : commands) all.push_back(command.name);
  return all;
}

std::string bash_script(std::span<const CommandWords> commands) {
  std::string script =
      "# bash completion of weir; load it with: source <(weir completion bash)\n"
      "_weir() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} words\n"
      "  case ${COMP_CWORD}:${COMP_WORDS[1]} in\n";
  script += fmt::format("    1:*) words='{}' ;;\n", fmt::join(names(commands), " "));
  for (const auto& command : commands) {
    script += fmt::format("    *:{}) words='{}' ;;\n", command.name, fmt::join(command.words, " "));
  }
  script +=
      "  esac\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
      "}\n"
      "complete -o default -F _weir weir\n";
  return script;
}

std::string zsh_script(std::span<const CommandWords> commands) {
  std::string script =
      "#compdef weir\n"
      "# zsh completion of weir; load it with: source <(weir completion zsh)\n"
      "_weir() {\n"
      "  if (( CURRENT == 2 )); then\n";
  script += fmt::format("    compadd -- {}\n", fmt::join(names(commands), " "));
  script +=
      "    return\n"
      "  fi\n"
      "  case $words[2] in\n";
  for (const auto& command : commands) {
    script +=
        fmt::format("    {}) compadd -- {} ;;\n", command.name, fmt::join(command.words, " "));
  }
  script +=
      "  esac\n"
      "  _files\n"
      "}\n"
      "compdef _weir weir\n";
  return script;
}

/// fish reads single quotes literally but for \\ and \'.
std::string fish_quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char letter : text) {
    if (letter == '\'' || letter == '\\') quoted += '\\';
    quoted += letter;
  }
  return quoted + "'";
}

std::string fish_script(std::span<const CommandWords> commands) {
  std::string script = "# fish completion of weir; load it with: weir completion fish | source\n";
  for (const auto& command : commands) {
    script += fmt::format("complete -c weir -n __fish_use_subcommand -f -a {} -d {}\n",
                          command.name, fish_quoted(command.description));
    for (const auto& word : command.words) {
      script += fmt::format("complete -c weir -n '__fish_seen_subcommand_from {}' ", command.name);
      script += word.starts_with("--") ? fmt::format("-l {}\n", word.substr(2))
                                       : fmt::format("-a {}\n", word);
    }
  }
  return script;
}

}  // namespace

Result<std::string> completion_script(std::string_view shell,
                                      std::span<const CommandWords> commands) {
  if (shell == "bash") return bash_script(commands);
  if (shell == "zsh") return zsh_script(commands);
  if (shell == "fish") return fish_script(commands);
  return fail(ErrorCode::unsupported,
              fmt::format("no completion for '{}'; give bash, zsh or fish", shell), Origin::client);
}

}  // namespace weir::cli
