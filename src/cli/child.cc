// SPDX-License-Identifier: Apache-2.0
#include "cli/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>

#include "net/runtime.h"

namespace weir::cli {
namespace {

constexpr int kPatienceMs = 10'000;

/// A member of a JSON log line whose value is a plain text.
std::optional<std::string> member(const std::string& line, const std::string& name) {
  const std::string key = "\"" + name + "\":\"";
  const std::size_t at = line.find(key);
  if (at == std::string::npos) return std::nullopt;
  const std::size_t begin = at + key.size();
  return line.substr(begin, line.find('"', begin) - begin);
}

std::string last_lines(const std::string& text) {
  constexpr std::size_t kShown = 2000;
  return text.size() > kShown ? text.substr(text.size() - kShown) : text;
}

[[noreturn]] void become(std::vector<std::string>& args, int log, pid_t parent) {
  // The child ends with its parent, however that ends; the check closes the gap before prctl.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(log, STDERR_FILENO);
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(nowhere, STDIN_FILENO);
  dup2(nowhere, STDOUT_FILENO);
  std::vector<char*> pointers;
  for (auto& arg : args) pointers.push_back(arg.data());
  pointers.push_back(nullptr);
  execv("/proc/self/exe", pointers.data());
  _exit(127);
}

}  // namespace

Result<std::unique_ptr<Child>> Child::start(std::vector<std::string> args) {
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) {
    return fail(ErrorCode::io, fmt::format("cannot make a pipe: {}", strerrordesc_np(errno)));
  }
  // Room for all it may log in a minute, so that it never waits for a reader.
  constexpr int kPipeBytes = 1 << 20;
  fcntl(pipe_ends[0], F_SETPIPE_SZ, kPipeBytes);
  args.insert(args.begin(), "weir");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) become(args, pipe_ends[1], parent);
  close(pipe_ends[1]);
  if (pid < 0) {
    close(pipe_ends[0]);
    return fail(ErrorCode::io, fmt::format("cannot start a process: {}", strerrordesc_np(errno)));
  }
  return std::unique_ptr<Child>(new Child(pid, pipe_ends[0]));
}

Result<std::string> Child::listening(const std::string& plane, Duration deadline) {
  const Instant until = net::monotonic_now() + deadline;
  while (true) {
    std::size_t from = 0;
    for (std::size_t end = read_.find('\n'); end != std::string::npos;
         end = read_.find('\n', from)) {
      const std::string line = read_.substr(from, end - from);
      from = end + 1;
      const auto address = member(line, "address");
      if (address && member(line, "event") == "listening" && member(line, "plane") == plane) {
        return *address;
      }
    }
    const Duration left = until - net::monotonic_now();
    if (left <= Duration{0}) {
      return fail(ErrorCode::timed_out,
                  fmt::format("a process of the demo does not listen; its log ends with\n{}",
                              last_lines(read_)));
    }
    pollfd ready{.fd = log_, .events = POLLIN, .revents = 0};
    poll(&ready, 1,
         static_cast<int>(
             std::min<std::int64_t>(left / std::chrono::milliseconds(1) + 1, kPatienceMs)));
    if (ready.revents == 0) continue;
    std::array<char, 4096> buffer{};
    const ssize_t got = read(log_, buffer.data(), buffer.size());
    if (got <= 0) {
      return fail(ErrorCode::io,
                  fmt::format("a process of the demo ended; its log says\n{}", last_lines(read_)));
    }
    read_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

Child::~Child() {
  kill(pid_, SIGTERM);
  // Reading on until it closes its log is also how its end is noticed.
  std::array<char, 4096> buffer{};
  pollfd ready{.fd = log_, .events = POLLIN, .revents = 0};
  while (poll(&ready, 1, kPatienceMs) > 0 && read(log_, buffer.data(), buffer.size()) > 0) {
  }
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(log_);
}

}  // namespace weir::cli
