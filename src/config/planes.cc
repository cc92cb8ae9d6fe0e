// SPDX-License-Identifier: Apache-2.0
// What of the configuration concerns the outside: listeners, providers, secrets and files.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "config/address.h"
#include "config/policy_builder.h"

namespace weir::config {

std::string resolve(const std::string& path, const std::string& beside) {
  const std::filesystem::path wanted(path);
  if (wanted.is_absolute()) return path;
  const std::filesystem::path first = std::filesystem::path(beside).parent_path() / wanted;
  std::error_code ignored;
  if (std::filesystem::exists(first, ignored)) return first.string();
  return std::filesystem::exists(wanted, ignored) ? path : first.string();
}

Result<std::string> read_whole(const std::string& path, std::size_t most) {
  std::error_code trouble;
  if (std::filesystem::is_directory(path, trouble)) {
    return fail(ErrorCode::io, fmt::format("{} is a directory; name a file", printable(path)));
  }
  // Opening a pipe would wait for somebody to write into it.
  if (std::filesystem::exists(path, trouble) && std::filesystem::is_fifo(path, trouble)) {
    return fail(ErrorCode::io, fmt::format("{} is a pipe; name a file", printable(path)));
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    return fail(ErrorCode::io, fmt::format("cannot read {}: {}; check the path and its permissions",
                                           printable(path), std::strerror(errno)));
  }
  std::string text;
  std::array<char, 16384> piece{};
  while (stream && text.size() <= most) {
    stream.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    text.append(piece.data(), static_cast<std::size_t>(stream.gcount()));
  }
  if (text.size() > most) {
    return fail(ErrorCode::too_large, fmt::format("{} is larger than {} bytes", path, most));
  }
  return text;
}

namespace {

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char byte) {
    const auto code = static_cast<unsigned char>(byte);
    return code < 0x20 || code == 0x7f;
  });
}

std::vector<ListenAddress> addresses(const Section& section) {
  std::vector<ListenAddress> out;
  for (const std::string& text : section.texts("listen")) {
    const Parsed<ListenAddress> address = parse_listen(text);
    if (address) out.push_back(*address);
  }
  return out;
}

void refuse_twice(const Section& section, std::vector<std::string>& taken,
                  const std::vector<ListenAddress>& listen, Faults& faults) {
  for (const ListenAddress& address : listen) {
    const std::string text = show(address);
    const bool any_port = address.unix_path.empty() && address.port == 0;
    if (!any_port && std::find(taken.begin(), taken.end(), text) != taken.end()) {
      faults.add(section.place("listen"), section.path("listen"),
                 fmt::format("{} is listened on twice", config::quoted(text)), "use another port");
    }
    taken.push_back(text);
  }
}

bool header_name(std::string_view name) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [kMarks](char byte) {
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
           (byte >= 'A' && byte <= 'Z') || kMarks.find(byte) != std::string_view::npos;
  });
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& byte : out) {
    if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
  }
  return out;
}

void read_headers(const Section& section, Provider& provider, Faults& faults) {
  static constexpr std::string_view kOurs[] = {
      "host", "content-length", "transfer-encoding", "connection", "keep-alive",
      "te",   "trailer",        "upgrade",           "expect",     "proxy-authorization"};
  constexpr std::size_t kMost = 64;
  provider.headers = section.text_map("headers");
  if (provider.headers.size() > kMost) {
    faults.add(section.place("headers"), section.path("headers"), "more than 64 headers",
               "remove some");
  }
  for (const auto& [name, value] : provider.headers) {
    const std::string path = join(section.path("headers"), name);
    if (!header_name(name)) {
      faults.add(section.place("headers"), path, "this is not a header's name",
                 "use letters, digits and -");
    } else if (std::find(std::begin(kOurs), std::end(kOurs), lower(name)) != std::end(kOurs)) {
      faults.add(section.place("headers"), path, "this header is set by the gateway itself",
                 "remove it");
    }
    if (has_control(value)) {
      faults.add(section.place("headers"), path, "the value holds a line break or control byte",
                 "remove it");
    }
  }
}

/// The base URL, from the file or the kind.
void read_url(const Section& section, const Config& config, Provider& provider, Faults& faults) {
  const bool emulated = provider.kind == "emulated";
  if (emulated) {
    if (section.has("base_url")) {
      faults.add(section.place("base_url"), section.path("base_url"),
                 "the emulator runs in this process and has no URL",
                 "remove it, or use kind: openai_compatible for one of its own");
    }
    if (!section.has("config")) {
      faults.add(section.place(), section.path("config"), "this key is missing",
                 "name the emulator's file");
      return;
    }
    provider.emulator_config = resolve(section.text("config"), config.file);
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(provider.emulator_config, ignored)) {
      faults.add(section.place("config"), section.path("config"),
                 fmt::format("there is no file {}", config::quoted(provider.emulator_config)),
                 "a relative path is looked for beside this file, then in the working directory");
    }
    return;
  }
  if (section.has("config")) {
    faults.add(section.place("config"), section.path("config"), "only kind emulated takes a config",
               "remove it");
  }
  std::string text = section.text("base_url");
  if (text.empty() && provider.kind == "openai") text = "https://api.openai.com/v1";
  if (text.empty()) {
    faults.add(section.place(), section.path("base_url"), "this key is missing",
               "add the URL up to the version, such as http://127.0.0.1:8000/v1");
    return;
  }
  const Parsed<BaseUrl> url = parse_base_url(text);
  if (!url) return;
  provider.scheme = url->scheme;
  provider.host = url->host;
  provider.path = url->path;
  provider.port = url->port;
}

void read_key(const Section& section, Config& config, Provider& provider, Faults& faults) {
  const bool given = section.has("api_key") || section.has("api_key_file");
  provider.api_key = read_secret(section, "api_key", config, faults);
  if (has_control(provider.api_key.reveal())) {
    faults.add(section.place("api_key"), section.path("api_key"),
               "the key holds a line break or control byte", "remove it");
  }
  if (provider.kind != "openai") return;
  if (!given) {
    faults.add(section.place(), section.path("api_key"), "this key is missing",
               "add api_key: \"${OPENAI_API_KEY:-}\" or api_key_file");
  } else if (provider.api_key.empty()) {
    provider.off = true;
  }
  if (provider.scheme == "http" && !provider.off && !is_loopback(provider.host)) {
    config.notices.push_back(
        fmt::format("provider {}: its key goes over plain http; use https", provider.name));
  }
}

}  // namespace

Secret read_secret(const Section& section, const std::string& key, const Config& config,
                   Faults& faults) {
  constexpr std::size_t kMost = std::size_t{64} << 10U;
  const std::string file_key = key + "_file";
  if (!section.has(file_key)) return Secret(section.text(key));
  const Result<std::string> text = read_whole(resolve(section.text(file_key), config.file), kMost);
  if (!text) {
    faults.add(section.place(file_key), section.path(file_key), text.error().text,
               "a relative path is looked for beside this file, then in the working directory");
    return {};
  }
  std::string_view value = *text;
  if (value.ends_with('\n')) value.remove_suffix(1);
  if (value.ends_with('\r')) value.remove_suffix(1);
  return Secret(std::string(value));
}

void build_providers(const Section& root, Config& config, Faults& faults) {
  for (const auto& [name, section] : root.named("providers")) {
    Provider provider;
    provider.name = name;
    provider.kind = section.text("kind");
    const std::vector<std::string_view> built = split("openai|openai_compatible|emulated");
    if (std::find(built.begin(), built.end(), provider.kind) != built.end()) {
      read_url(section, config, provider, faults);
      read_key(section, config, provider, faults);
    }
    read_headers(section, provider, faults);
    if (section.has("ca_file")) {
      provider.ca_file = resolve(section.text("ca_file"), config.file);
      std::error_code ignored;
      if (!std::filesystem::exists(provider.ca_file, ignored)) {
        faults.add(section.place("ca_file"), section.path("ca_file"),
                   fmt::format("there is no file {}", config::quoted(provider.ca_file)),
                   "name a PEM file");
      }
    }
    const Section timeouts = section.section("timeouts");
    provider.connect_timeout = *timeouts.duration("connect");
    provider.first_byte_timeout = *timeouts.duration("first_byte");
    provider.idle_timeout = *timeouts.duration("idle");
    provider.total_timeout = *timeouts.duration("total");
    config.providers.push_back(std::move(provider));
  }
}

namespace {

/// Where what was learned is kept: beside the configuration, unless the path says where.
void read_state(const Section& stores, Config& config, Faults& faults) {
  const std::string path = stores.text("state");
  if (path == "none") return;
  const auto wrong = [&](std::string_view message, std::string_view fix) {
    faults.add(stores.place("state"), stores.path("state"), std::string(message), std::string(fix));
  };
  if (path == "ledger") {
    return wrong("state in the ledger is not in this version", "write a file's path, or none");
  }
  if (has_control(path)) {
    return wrong("the path holds a line break or control byte", "write the path of a file");
  }
  if (path.ends_with('/')) {
    return wrong(fmt::format("{} is a folder", config::quoted(path)), "write the path of a file");
  }
  const std::filesystem::path wanted(path);
  config.state_file = wanted.is_absolute()
                          ? path
                          : (std::filesystem::path(config.file).parent_path() / wanted).string();
}

}  // namespace

void build_planes(const Section& root, Config& config, Faults& faults) {
  read_state(root.section("stores"), config, faults);
  const Section server = root.section("server");
  const Section limits = server.section("limits");
  Server& plane = config.server;
  plane.listen = addresses(server);
  plane.threads = static_cast<std::int32_t>(server.count("threads").value_or(0));
  plane.body_limit = limits.bytes("body");
  plane.header_limit = limits.bytes("header");
  plane.header_timeout = *limits.duration("header_timeout");
  plane.idle_timeout = *limits.duration("idle_timeout");
  plane.connections = *limits.count("connections");
  plane.buffered = limits.bytes("buffered");
  plane.sync_wait = *limits.duration("sync_wait");
  plane.drain = *server.duration("drain");
  if (server.has("listen") && server.texts("listen").empty()) {
    faults.add(server.place("listen"), server.path("listen"), "there is no address to listen on",
               "add one, such as 127.0.0.1:8080");
  }
  std::vector<std::string> taken;
  refuse_twice(server, taken, plane.listen, faults);
  if (plane.body_limit > plane.buffered) {
    faults.add(limits.place("body"), limits.path("body"),
               "one body could be larger than all that may be buffered",
               "raise server.limits.buffered or lower it");
  }

  const Section admin = root.section("admin");
  if (!admin.present()) return;
  config.admin.listen = addresses(admin);
  refuse_twice(admin, taken, config.admin.listen, faults);
  config.admin.token = read_secret(admin, "token", config, faults);
  config.admin.metrics_token = admin.section("metrics").boolean("token");
  const bool open = std::any_of(config.admin.listen.begin(), config.admin.listen.end(),
                                [](const ListenAddress& address) { return !is_loopback(address); });
  if (open && config.admin.token.empty()) {
    faults.add(admin.place("listen"), admin.path("token"),
               "the admin plane listens beyond loopback without a token",
               "add token: ${WEIR_ADMIN_TOKEN} or token_file, or listen on 127.0.0.1");
  }
}

}  // namespace weir::config
