// SPDX-License-Identifier: Apache-2.0
#include "cli/demo.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <ostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/child.h"
#include "cli/demo_report.h"
#include "cli/fetch.h"
#include "cli/load.h"
#include "cli/main_cli.h"
#include "config/sha256.h"

namespace weir::cli {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t kTimeScale = 10;
constexpr std::int64_t kRequests = 300;      ///< in one of the provider's minutes
constexpr std::int64_t kTokens = 400'000;    ///< the same
constexpr Duration kArrivals = seconds(24);  ///< real; four of the provider's minutes
constexpr double kOffered = 1.4;             ///< of what the limit allows
constexpr std::string_view kAcmeKey = "weir-demo-acme";
constexpr std::string_view kBlueKey = "weir-demo-blue";

constexpr DemoLimits kLimits{.requests = kRequests, .window = 60, .arrivals_end = 240};

/// A folder that goes when the demo ends.
class Folder {
 public:
  Folder() {
    std::error_code failed;
    std::string pattern = (std::filesystem::temp_directory_path(failed) / "weir-demo-XXXXXX");
    if (!failed && mkdtemp(pattern.data()) != nullptr) path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] bool made() const { return !path_.empty(); }
  [[nodiscard]] std::string write(const std::string& name, const std::string& text) const {
    const std::string file = path_ + "/" + name;
    std::ofstream(file) << text;
    return file;
  }

 private:
  std::string path_;
};

std::string emulator_file() {
  return fmt::format(
      "rules:\n"
      "  - {{unit: requests, amount: {}, per: 60s, enforce: sliding}}\n"
      "  - {{unit: total_tokens, amount: {}, per: 60s, enforce: sliding, count: settle}}\n"
      "latency: {{first_token: 300ms, per_input_token: 50us, per_output_token: 20ms}}\n"
      "output: {{exact: true}}\n",
      kRequests, kTokens);
}

/// weir is told the provider's limits as they are in real time: a minute passes in six seconds. The
/// time scale shortens the window but not this machine's delays, so the guard is a wider part of it
/// than weir would take for a real minute: three processes share the cores here.
std::string weir_file(const std::string& emulator) {
  const auto key = [](std::string_view secret) {
    return "sha256:" + config::to_hex(config::sha256(secret));
  };
  return fmt::format(
      "server: {{listen: '127.0.0.1:0'}}\n"
      "admin: {{listen: '127.0.0.1:0', token: demo}}\n"
      "providers:\n"
      "  emulator: {{kind: openai_compatible, base_url: 'http://{0}/v1', api_key: demo}}\n"
      "deployments:\n"
      "  main:\n"
      "    provider: emulator\n"
      "    shaping: {{start: full, guard: 60ms}}\n"
      "    rules:\n"
      "      - {{unit: requests, amount: {1}, per: {3}ms, enforce: sliding}}\n"
      "      - {{unit: total_tokens, amount: {2}, per: {3}ms, enforce: sliding, count: settle}}\n"
      "models:\n"
      "  toy-chat: {{deployments: [{{to: main}}]}}\n"
      "classes:\n"
      "  interactive: {{weight: 8, max_wait: 30s}}\n"
      "  batch: {{weight: 1, max_wait: 20m}}\n"
      "tenants:\n"
      "  acme: {{keys: {{demo: {{hash: '{4}'}}}}}}\n"
      "  blue: {{keys: {{demo: {{hash: '{5}'}}}}}}\n",
      emulator, kRequests, kTokens, 60'000 / kTimeScale, key(kAcmeKey), key(kBlueKey));
}

load::Workload workload() {
  load::Workload of;
  of.seed = 7;
  of.duration = kArrivals;
  of.rates = {{Duration{0}, kOffered * static_cast<double>(kRequests * kTimeScale) / 60}};
  of.input = {.mean = 200, .sigma = 0.7, .cap = 2000};
  of.output = {.mean = 60, .sigma = 0.5, .cap = 300};
  of.stream_share = 0.5;
  // The SDKs' half a second and eight seconds, in the provider's time.
  of.retry = {.attempts = 3,
              .base = milliseconds(500) / kTimeScale,
              .cap = milliseconds(8000) / kTimeScale};
  of.clients = {{"acme", "interactive", std::string(kAcmeKey), 2},
                {"acme", "batch", std::string(kAcmeKey), 3},
                {"blue", "interactive", std::string(kBlueKey), 2},
                {"blue", "batch", std::string(kBlueKey), 3}};
  return of;
}

/// Sends the calls to `url` and keeps the emulator's counters meanwhile.
Result<Run> measure(const std::string& name, const std::string& url, Fetcher& emulator,
                    const std::function<void(double)>& progress) {
  if (auto reset = emulator.ask("POST", "/emulator/v1/reset"); !reset) return fail(reset.error());
  Run run;
  run.name = name;
  double begun = 0;
  Result<void> fault;
  const auto sample = [&] {
    const auto text = emulator.ask("GET", "/emulator/v1/counters");
    auto read = text ? read_sample(*text) : Result<Sample>(fail(text.error()));
    if (!read) {
      fault = fail(read.error());
      return;
    }
    if (run.samples.empty()) begun = read->at;
    read->at -= begun;
    progress(read->at / kLimits.arrivals_end);
    run.samples.push_back(*read);
  };
  sample();
  const load::Workload calls = workload();
  auto report = send_workload(calls, url, milliseconds(250), sample);
  if (!report) return fail(report.error());
  sample();
  if (!fault) return fail(fault.error());
  run.report = std::move(*report);
  return run;
}

struct Stage {
  std::unique_ptr<Child> emulator, weir;
  std::string emulator_address, weir_address;
};

Result<Stage> set_up(const Folder& folder) {
  constexpr Duration kPatience = seconds(20);
  Stage stage;
  auto emulator = Child::start(
      {"emulate", "--config", folder.write("emulator.yaml", emulator_file()), "--listen",
       "127.0.0.1:0", "--time-scale", fmt::format("{}", kTimeScale), "--log-format", "json"});
  if (!emulator) return fail(emulator.error());
  stage.emulator = std::move(*emulator);
  auto at = stage.emulator->listening("emulator", kPatience);
  if (!at) return fail(at.error());
  stage.emulator_address = *at;
  auto weir = Child::start({"serve", "--config",
                            folder.write("weir.yaml", weir_file(stage.emulator_address)),
                            "--log-format", "json"});
  if (!weir) return fail(weir.error());
  stage.weir = std::move(*weir);
  auto data = stage.weir->listening("data", kPatience);
  if (!data) return fail(data.error());
  stage.weir_address = *data;
  return stage;
}

Result<std::vector<Run>> run_both(std::ostream& err) {
  const Folder folder;
  if (!folder.made()) return fail(ErrorCode::io, "cannot make a temporary folder");
  auto stage = set_up(folder);
  if (!stage) return fail(stage.error());
  auto emulator = Fetcher::to(stage->emulator_address);
  if (!emulator) return fail(emulator.error());
  const bool terminal = isatty(STDERR_FILENO) == 1;
  std::vector<Run> runs;
  for (const auto& [name, address] : {std::pair{"straight, with retries", stage->emulator_address},
                                      std::pair{"through weir", stage->weir_address}}) {
    err << "weir demo: " << name << (terminal ? "" : "\n") << std::flush;
    const auto progress = [&, label = name](double share) {
      if (terminal)
        err << fmt::format("\rweir demo: {} {:3.0f} %", label, 100 * share) << std::flush;
    };
    auto run = measure(name, "http://" + address + "/v1", **emulator, progress);
    if (terminal) err << '\n';
    if (!run) return fail(run.error());
    runs.push_back(std::move(*run));
  }
  return runs;
}

}  // namespace

int demo(const DemoOptions& options, std::ostream& out, std::ostream& err) {
  err << fmt::format(
      "weir demo: a provider that allows {} requests a minute, its minutes six seconds long; "
      "{:.0f} % of that is asked for\n",
      kRequests, 100 * kOffered);
  const auto runs = run_both(err);
  if (!runs) {
    err << "weir demo: " << runs.error().describe() << '\n';
    return kFailed;
  }
  out << (options.json ? demo_json(*runs, kLimits) + "\n" : demo_text(*runs, kLimits));
  std::ofstream page(options.report);
  page << demo_html(*runs, kLimits);
  page.close();
  if (page) {
    err << "weir demo: wrote " << options.report << '\n';
  } else {
    err << "weir demo: cannot write " << options.report << '\n';
  }
  const auto missed = missed_goals(runs->back(), kLimits);
  for (const auto& goal : missed) err << "weir demo: goal missed: " << goal << '\n';
  return missed.empty() ? kDone : kFailed;
}

}  // namespace weir::cli
