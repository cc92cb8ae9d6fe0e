// SPDX-License-Identifier: Apache-2.0
#include "cli/main_cli.h"

#include <fmt/format.h>
#include <fmt/ostream.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/check.h"
#include "cli/completion.h"
#include "cli/demo.h"
#include "cli/emulate.h"
#include "cli/keys.h"
#include "cli/load.h"
#include "cli/serve.h"
#include "cli/version.h"
#include "config/faults.h"
#include "config/schema_export.h"
#include "emulator/settings.h"
#include "gateway/problem.h"
#include "load/workload.h"
#include "sim/ablations.h"
#include "sim/claims.h"
#include "sim/compare.h"
#include "sim/estimates.h"
#include "sim/harness.h"
#include "sim/holds.h"
#include "sim/workload.h"

namespace weir::cli {
namespace {

/// Everything a command line can say, and what was chosen. One parse fills one of these.
struct Choice {
  std::ostream& out;
  std::ostream& err;
  std::string log_format = "json";
  std::string log_level = "info";
  ServeOptions serve{};
  CheckOptions check{};
  EmulateOptions emulate{};
  LoadOptions load{};
  DemoOptions demo{};
  std::string key_name{};
  std::string keys_config{};
  std::string scenario{};
  sim::RunOptions sim{};
  std::string sim_what{}, strategy{};
  std::string shell{};
  std::string page{};
  std::function<int()> action{};
};

constexpr std::string_view kFooter =
    "Exit codes: 0 done, 1 the work failed, 2 wrong usage, 3 configuration invalid.\n"
    "Logs go to stderr, results to stdout.";

constexpr std::string_view kUnbuilt = " (not in this version)";

CLI::App* add(CLI::App& app, Choice& choice, const std::string& name,
              const std::string& description, std::function<int()> action) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer("");
  command->callback([&choice, action = std::move(action)] { choice.action = action; });
  return command;
}

/// A command of the contract that is not built yet: it takes any arguments, does nothing and says
/// so by name.
void add_unbuilt(CLI::App& app, Choice& choice, const std::string& name,
                 const std::string& description) {
  add(app, choice, name, description + std::string(kUnbuilt),
      [&choice, name] {
        fmt::print(choice.err, "weir {}: not in this version\n", name);
        return kUsage;
      })
      ->fallthrough(false)
      ->allow_extras();
}

void add_serve(CLI::App& app, Choice& choice) {
  CLI::App* command = add(app, choice, "serve", "Run the gateway", [&choice] {
    choice.serve.log_format = choice.log_format;
    choice.serve.log_level = choice.log_level;
    return serve(choice.serve, choice.out, choice.err);
  });
  command->add_option("--config", choice.serve.config, "The configuration, YAML")
      ->required()
      ->type_name("FILE");
}

void add_check(CLI::App& app, Choice& choice) {
  CLI::App* command = add(app, choice, "check", "Validate a configuration",
                          [&choice] { return check(choice.check, choice.out, choice.err); });
  command->add_option("--config", choice.check.config, "The configuration, YAML")
      ->required()
      ->type_name("FILE");
  command->add_flag("--print", choice.check.print,
                    "Print the effective configuration, secrets masked");
  command->add_flag("--probe", choice.check.probe,
                    "Try each fallback target" + std::string(kUnbuilt));
}

void add_keys(CLI::App& app, Choice& choice) {
  CLI::App* keys = app.add_subcommand("keys", "Make, list and hash virtual keys");
  keys->footer("");
  keys->require_subcommand(1);
  CLI::App* fresh = add(*keys, choice, "new", "Make a key; it is shown once", [&choice] {
    return keys_new(choice.key_name, kernel_random, choice.out, choice.err);
  });
  fresh->add_option("--name", choice.key_name, "The key's name in the configuration");
  CLI::App* list = add(*keys, choice, "list", "List the keys of a configuration",
                       [&choice] { return keys_list(choice.keys_config, choice.out, choice.err); });
  list->add_option("--config", choice.keys_config, "The configuration, YAML")
      ->required()
      ->type_name("FILE");
  add(*keys, choice, "hash", "Hash a key read from standard input",
      [&choice] { return keys_hash(std::cin, choice.out, choice.err); });
  add(*keys, choice, "revoke", "Revoke a key" + std::string(kUnbuilt),
      [&choice] { return keys_revoke(choice.err); })
      ->fallthrough(false)
      ->allow_extras();
}

void add_emulate(CLI::App& app, Choice& choice) {
  CLI::App* command = add(app, choice, "emulate", "Run the provider emulator", [&choice] {
    choice.emulate.log_format = choice.log_format;
    choice.emulate.log_level = choice.log_level;
    return emulate(choice.emulate, choice.err);
  });
  command->add_option("--config", choice.emulate.config, "Its limits and speed, YAML; absent: none")
      ->type_name("FILE");
  command->add_option("--listen", choice.emulate.listen, "Where it listens")
      ->capture_default_str()
      ->type_name("ADDR");
  command->add_option("--time-scale", choice.emulate.time_scale, "Its seconds in one real second")
      ->capture_default_str()
      ->type_name("N");
}

void add_load(CLI::App& app, Choice& choice) {
  CLI::App* command = add(app, choice, "load", "Generate load and measure it",
                          [&choice] { return load(choice.load, choice.out, choice.err); });
  command->add_option("--url", choice.load.url, "Base URL, as an SDK takes it")
      ->required()
      ->type_name("URL");
  command->add_option("--workload", choice.load.workload, "What to send, YAML")
      ->required()
      ->type_name("FILE");
  command->add_flag("--json", choice.load.json, "Print JSON");
}

void add_demo(CLI::App& app, Choice& choice) {
  CLI::App* command = add(app, choice, "demo", "Compare straight traffic with governed traffic",
                          [&choice] { return demo(choice.demo, choice.out, choice.err); });
  command->add_flag("--json", choice.demo.json, "Print JSON");
  command->add_option("--report", choice.demo.report, "Where the page is written")
      ->capture_default_str()
      ->type_name("FILE");
}

/// Drawn over itself; gone when all is done.
std::string progress_bar(std::size_t done, std::size_t of) {
  constexpr std::size_t kWidth = 40;
  if (done >= of) return "\r\x1b[K";
  const std::size_t full = done * kWidth / of;
  return fmt::format("\r[{}{}] {} of {}", std::string(full, '#'), std::string(kWidth - full, ' '),
                     done, of);
}

/// The claims bring their own worlds; what would change them is refused and not passed over.
int print_claims(const Choice& choice) {
  const sim::RunOptions& options = choice.sim;
  if (!choice.scenario.empty() || !choice.strategy.empty() || !options.trace.empty() ||
      !options.style.empty() || !options.load.empty() || !options.report.empty() ||
      !options.ablations.empty() || options.compare || options.seeds.size() > 1) {
    fmt::print(choice.err, "weir sim claims takes --json and one --seed, nothing else\n");
    return kUsage;
  }
  const std::uint64_t seed = choice.sim.seeds.empty() ? 1 : choice.sim.seeds.front();
  const auto claims = sim::measure_claims(seed, choice.sim.progress);
  choice.out << (choice.sim.json ? sim::claims_json(claims) : sim::claims_table(claims));
  return kDone;
}

/// How well the estimator foresees the outputs of a trace.
int print_estimates(const Choice& choice) {
  const sim::RunOptions& options = choice.sim;
  if (options.trace.empty() || !choice.scenario.empty() || !choice.strategy.empty() ||
      !options.style.empty() || !options.load.empty() || !options.report.empty() ||
      !options.ablations.empty() || options.compare || !options.seeds.empty()) {
    fmt::print(choice.err, "weir sim estimates takes --trace FILE and --json, nothing else\n");
    return kUsage;
  }
  const auto rows = sim::read_trace(options.trace);
  if (!rows) {
    fmt::print(choice.err, "weir sim: {}\n", rows.error().text);
    return kInvalidConfig;
  }
  const sim::TraceEstimates measured = sim::replay_estimates(*rows);
  choice.out << (options.json ? sim::estimates_json(measured) : sim::estimates_table(measured));
  return measured.missed().empty() ? kDone : kFailed;
}

/// What of times that have nothing to do with load is taken for congestion.
int print_holds(const Choice& choice) {
  const sim::RunOptions& options = choice.sim;
  if (!choice.scenario.empty() || !choice.strategy.empty() || !options.style.empty() ||
      !options.load.empty() || !options.report.empty() || !options.ablations.empty() ||
      options.compare || options.seeds.size() > 1) {
    fmt::print(choice.err, "weir sim holds takes --trace FILE, one --seed and --json, no more\n");
    return kUsage;
  }
  constexpr std::int64_t kSynthetic = 6000;
  std::vector<sim::TraceRow> rows;
  if (options.trace.empty()) {
    rows = sim::bimodal_rows(kSynthetic, options.seeds.empty() ? 1 : options.seeds.front());
  } else {
    auto read = sim::read_trace(options.trace);
    if (!read) {
      fmt::print(choice.err, "weir sim: {}\n", read.error().text);
      return kInvalidConfig;
    }
    rows = *std::move(read);
  }
  const sim::FalseHolds found = sim::find_false_holds(rows);
  if (found.rows == 0) {
    fmt::print(choice.err,
               "weir sim: no row of the trace says how long it took; name one with a column "
               "duration_ms, such as scenarios/traces/acdc_trace_d_head_generation_heavy.csv\n");
    return kInvalidConfig;
  }
  choice.out << (options.json ? sim::holds_json(found) : sim::holds_table(found));
  return found.holds == 0 && found.share() <= 0.01 ? kDone : kFailed;
}

int simulate(Choice& choice) {
  const auto refuse = [&choice](std::string_view why, int code) {
    fmt::print(choice.err, "weir sim{}\n", why);
    return code;
  };
  if (isatty(STDERR_FILENO) == 1) {
    choice.sim.progress = [](std::size_t done, std::size_t of) {
      std::cerr << progress_bar(done, of) << std::flush;
    };
  }
  if (choice.sim_what == "claims") return print_claims(choice);
  if (choice.sim_what == "estimates") return print_estimates(choice);
  if (choice.sim_what == "holds") return print_holds(choice);
  if (!choice.sim_what.empty()) {
    return refuse(fmt::format(": there is no '{}'; see 'weir sim --help'", choice.sim_what),
                  kUsage);
  }
  for (const std::string& ablation : choice.sim.ablations) {
    if (sim::find_ablation(ablation) == nullptr) {
      return refuse(" --ablate " + ablation + " is not one of " + sim::ablation_names(), kUsage);
    }
  }
  choice.sim.compare =
      choice.sim.compare || !choice.sim.report.empty() || !choice.sim.ablations.empty();
  if (!choice.strategy.empty()) {
    constexpr std::array kKnown = {Strategy::passthrough, Strategy::retry, Strategy::rate,
                                   Strategy::shaping, Strategy::adaptive};
    for (const Strategy known : kKnown) {
      if (name(known) == choice.strategy) choice.sim.strategy = known;
    }
    if (!choice.sim.strategy) {
      return refuse(fmt::format(" --strategy {} is not one of passthrough, retry, rate, shaping, "
                                "adaptive",
                                choice.strategy),
                    kUsage);
    }
  }
  if (choice.scenario.empty()) return refuse(": --scenario FILE is required", kUsage);
  for (const std::string& file : {choice.scenario, choice.sim.trace}) {
    std::error_code ignored;
    if (std::filesystem::exists(file, ignored) &&
        !std::filesystem::is_regular_file(file, ignored)) {
      return refuse(fmt::format(": {} is no regular file", file), kInvalidConfig);
    }
  }
  return sim::run_scenario_file(choice.scenario, choice.sim, choice.out, choice.err);
}

void add_sim(CLI::App& app, Choice& choice) {
  CLI::App* command = add(app, choice, "sim", "Run the governor in virtual time",
                          [&choice] { return simulate(choice); });
  command->add_option("--scenario", choice.scenario, "The worlds to run, YAML")->type_name("FILE");
  command
      ->add_option("--trace", choice.sim.trace, "A CSV file whose arrivals replace the scenario's")
      ->type_name("FILE");
  command
      ->add_option("--strategy", choice.strategy,
                   "Instead of the scenario's: passthrough, retry, rate or shaping")
      ->type_name("NAME");
  command->add_flag("--compare", choice.sim.compare,
                    "Run every published strategy beside the governor, at six loads");
  command
      ->add_option("--report", choice.sim.report,
                   "Write the comparison as one HTML page; means --compare")
      ->type_name("FILE");
  command
      ->add_option("--ablate", choice.sim.ablations,
                   "Add the governor without this; means --compare: " + sim::ablation_names())
      ->type_name("NAME");
  command->add_option("what", choice.sim_what,
                      "claims: measure the published figures; estimates: how well the outputs of "
                      "a --trace are foreseen; holds: what of the times of a --trace, or of two "
                      "kinds of back ends, is taken for congestion; they take no scenario");
  command->add_option("--seed", choice.sim.seeds, "Only these seeds")->type_name("N");
  command->add_option("--style", choice.sim.style, "Only this style of rules")->type_name("NAME");
  command->add_option("--load", choice.sim.load, "Only this load; of a comparison: as 120%")
      ->type_name("NAME");
  command->add_flag("--json", choice.sim.json, "Print JSON");
}

std::vector<CommandWords> words_of(const CLI::App& app) {
  std::vector<CommandWords> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_group().empty()) continue;
    CommandWords words{command->get_name(), command->get_description(), {}};
    for (const CLI::App* inner : command->get_subcommands([](const CLI::App*) { return true; })) {
      words.words.push_back(inner->get_name());
    }
    for (const CLI::Option* option : command->get_options()) {
      for (const auto& name : option->get_lnames()) words.words.push_back("--" + name);
    }
    for (const CLI::Option* option : app.get_options()) {
      for (const auto& name : option->get_lnames()) {
        if (name != "help") words.words.push_back("--" + name);
      }
    }
    commands.push_back(std::move(words));
  }
  return commands;
}

/// A file that is made from the code.
struct Page {
  std::string_view name;
  std::string_view file;
  std::string (*text)();
};
constexpr std::array kPages = {
    Page{"cli", "docs/reference/cli.md", &cli_markdown},
    Page{"configuration", "docs/reference/configuration.md", &config::configuration_markdown},
    Page{"emulator", "docs/reference/emulator.md", &emulator::emulator_markdown},
    Page{"errors", "docs/reference/errors.md", &gateway::errors_markdown},
    Page{"load", "docs/reference/load.md", &load::load_markdown},
    Page{"schema", "config/weir.schema.json", &config::json_schema}};

int print_page(const Choice& choice) {
  for (const Page& page : kPages) {
    if (choice.page == "list") fmt::print(choice.out, "{} {}\n", page.name, page.file);
    if (choice.page != page.name) continue;
    choice.out << page.text();
    return kDone;
  }
  if (choice.page == "list") return kDone;
  fmt::print(choice.err, "weir docs: no generated page '{}'; see 'weir docs list'\n", choice.page);
  return kUsage;
}

void add_small(CLI::App& app, Choice& choice) {
  add(app, choice, "version", "Print version, build and commit", [&choice] {
    choice.out << version_line() << '\n';
    return kDone;
  });
  CLI::App* completion =
      add(app, choice, "completion", "Print a completion script for a shell", [&app, &choice] {
        const auto commands = words_of(app);
        const auto script = completion_script(choice.shell, commands);
        if (!script) {
          fmt::print(choice.err, "weir completion: {}\n", script.error().text);
          return kUsage;
        }
        choice.out << *script;
        return kDone;
      });
  completion->add_option("shell", choice.shell, "bash, zsh or fish")->required();
  CLI::App* docs = add(app, choice, "docs", "Print a generated page of docs/reference",
                       [&choice] { return print_page(choice); });
  docs->group("");  // for the build's own use, not shown
  docs->add_option("page", choice.page, "Which page")->required();
}

/// The whole grammar. `app` and `choice` outlive the parse and the chosen action.
void describe(CLI::App& app, Choice& choice) {
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(std::string(kFooter));
  app.set_version_flag("-v,--version", version_line(), "Print version, build and commit, and exit");
  app.add_option("--log-format", choice.log_format, "How logs are written: json or text")
      ->check(CLI::IsMember({"json", "text"}))
      ->type_name("FORMAT");
  app.add_option("--log-level", choice.log_level, "What is logged: debug, info, warn or error")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->type_name("LEVEL");
  add_serve(app, choice);
  add_check(app, choice);
  add_keys(app, choice);
  add_emulate(app, choice);
  add_load(app, choice);
  add_sim(app, choice);
  add_demo(app, choice);
  add_unbuilt(app, choice, "diagnose", "Say which limit a provider's response hit");
  add_unbuilt(app, choice, "usage", "Say what a provider's response is charged");
  add_unbuilt(app, choice, "tokens", "Count tokens, exact and estimated");
  add_unbuilt(app, choice, "top", "Watch deployments, tenants and queues live");
  add_small(app, choice);
}

}  // namespace

/// The names of options that an argument could have been, of the chosen command and of the program.
std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  const auto take = [&names](const CLI::App& from) {
    for (const CLI::Option* option : from.get_options()) {
      for (const auto& each : option->get_lnames()) names.push_back("--" + each);
    }
  };
  const CLI::App* at = &app;
  take(*at);
  while (!at->get_subcommands().empty()) {
    at = at->get_subcommands().front();
    take(*at);
  }
  return names;
}

/// The first argument that looks like an option and is none; empty: each is one. CLI11 tells of a
/// missing option first, which is often the one that was written wrong.
std::string unknown_option(const CLI::App& app, std::span<const std::string> args) {
  const std::vector<std::string> names = options_of(app);
  for (const std::string& arg : args) {
    if (arg == "--") break;
    const std::string name = arg.substr(0, arg.find('='));
    if (name.size() < 2 || name.front() != '-' || name == "-h") continue;
    if (std::ranges::find(names, name) == names.end()) return name;
  }
  return {};
}

/// What is wrong with the arguments, in a sentence.
std::string usage_fault(const CLI::App& app, std::span<const std::string> args,
                        const CLI::ParseError& error) {
  const auto chosen = app.get_subcommands();
  const std::string_view first = args.empty() ? std::string_view{} : args.front();
  if (chosen.empty() && !first.empty() && !first.starts_with('-')) {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      if (!command->get_group().empty()) names.push_back(command->get_name());
    }
    const std::string near(config::nearest(first, {names.begin(), names.end()}));
    return fmt::format("'{}' is no subcommand{}", first,
                       near.empty() ? near : fmt::format("; did you mean {}?", near));
  }
  const std::string wrong = unknown_option(app, args);
  if (wrong.empty()) return error.what();
  const std::vector<std::string> names = options_of(app);
  const std::string near(config::nearest(wrong, {names.begin(), names.end()}));
  return fmt::format("there is no option {}{}{}", wrong,
                     chosen.empty() ? "" : " of 'weir " + chosen.front()->get_name() + "'",
                     near.empty() ? near : fmt::format("; did you mean {}?", near));
}

int run(std::span<const std::string> args, std::ostream& out, std::ostream& err) {
  Choice choice{.out = out, .err = err};
  CLI::App app("weir: a governor for traffic to large language models", "weir");
  describe(app, choice);
  // CLI11 takes its arguments from the back.
  std::vector<std::string> reversed(args.rbegin(), args.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();
    out << (chosen.empty() ? app.help() : chosen.front()->help("weir"));
    return kDone;
  } catch (const CLI::CallForVersion&) {
    out << version_line() << '\n';
    return kDone;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    fmt::print(err, "weir: {}\nweir: see 'weir {}--help'\n", usage_fault(app, args, error),
               chosen.empty() ? "" : chosen.front()->get_name() + " ");
    return kUsage;
  }
  return choice.action();
}

std::string cli_markdown() {
  Choice choice{.out = std::cout, .err = std::cerr};
  CLI::App app("weir: a governor for traffic to large language models", "weir");
  describe(app, choice);
  std::string page =
      "# Command line\n\nGenerated by `weir docs cli`; a test keeps it true.\n\n```text\n" +
      app.help() + "```\n";
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const bool built = command->get_description().find(kUnbuilt) == std::string::npos;
    if (command->get_group().empty() || !built) continue;
    page +=
        fmt::format("\n## weir {}\n\n```text\n{}```\n", command->get_name(), command->help("weir"));
  }
  return page;
}

}  // namespace weir::cli
