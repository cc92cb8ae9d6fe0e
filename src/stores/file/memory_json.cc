// SPDX-License-Identifier: Apache-2.0
#include "stores/file/memory_json.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <array>
#include <charconv>
#include <ctime>
#include <utility>

#include "telemetry/json_writer.h"

namespace weir::stores {
namespace {

using simdjson::dom::element;
using telemetry::JsonWriter;

constexpr std::int64_t kVersion = 1;
constexpr std::string_view kFormat = "weir state";

// ---- writing

// Divided, not multiplied by a billionth, which is no exact number: sixty seconds are 60.
double in_seconds(Duration value) { return static_cast<double>(value.count()) / 1e9; }

void seconds(JsonWriter& json, std::string_view name, Duration value) {
  // What never was is left out.
  if (value != kForever) json.member(name, in_seconds(value));
}

std::string calendar(WallTime wall) {
  const std::int64_t ns = wall.time_since_epoch().count();
  const auto whole = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm parts{};
  if (ns < 0 || gmtime_r(&whole, &parts) == nullptr) return {};
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

void write_limit(JsonWriter& json, const RememberedLimit& limit) {
  json.key("limit").begin_object();
  json.member("kept", limit.kept).member("most", limit.most).member("lump", limit.lump);
  seconds(json, "refused_ago", limit.refused_ago);
  seconds(json, "probe_every", limit.probe_every);
  seconds(json, "probe_next", limit.probe_next);
  seconds(json, "probe_in", limit.probe_in);
  json.member("found", limit.found).end_object();
}

void write_meter(JsonWriter& json, const RememberedMeter& meter) {
  json.begin_object();
  json.member("name", meter.name).member("unit", name(meter.unit));
  seconds(json, "window", meter.window);
  json.member("amount", meter.amount);
  if (meter.limit) write_limit(json, *meter.limit);
  if (meter.belief) {
    json.key("belief").begin_object();
    json.member("active", meter.belief->active).member("score", meter.belief->score);
    json.member("met", meter.belief->met);
    seconds(json, "refused_ago", meter.belief->refused_ago);
    seconds(json, "trusted", meter.belief->trusted);
    json.end_object();
  }
  if (meter.margin) {
    json.key("margin").begin_object();
    json.member("calls", meter.margin->calls).member("error_squared", meter.margin->error_squared);
    json.member("output", meter.margin->output);
    json.member("output_squared", meter.margin->output_squared).end_object();
  }
  if (meter.growth) {
    json.key("growth").begin_object();
    json.member("floor_part", meter.growth->floor_part);
    json.member("ratio_part", meter.growth->ratio_part);
    seconds(json, "refused_ago", meter.growth->refused_ago);
    json.end_object();
  }
  if (meter.counted) {
    json.key("charges").begin_array();
    for (const RememberedCharge& charge : meter.charges) {
      json.begin_array().real(in_seconds(charge.age)).integer(charge.amount).end_array();
    }
    json.end_array();
    if (meter.level > 0) json.member("level", meter.level);
  }
  json.end_object();
}

void write_calls(JsonWriter& json, const RememberedCalls& calls) {
  json.key("calls").begin_object();
  json.member("mean", calls.mean).member("weight", calls.weight);
  json.member("variance", calls.variance).member("bytes", calls.bytes);
  json.member("tokens", calls.tokens).member("cached", calls.cached);
  json.member("cacheable", calls.cacheable).member("distrust", calls.distrust);
  json.member("factor", calls.factor).member("answers", calls.answers);
  json.key("believed").begin_array();
  json.real(calls.believed_mean).real(calls.believed_variance);
  json.real(calls.believed_tokens_per_byte).real(calls.believed_cached_ratio).end_array();
  json.key("buckets").begin_array();
  for (const auto& [bucket, count] : calls.buckets) {
    json.begin_array().integer(bucket).integer(count).end_array();
  }
  json.end_array().end_object();
}

void write_deployment(JsonWriter& json, const RememberedDeployment& deployment) {
  json.begin_object();
  json.member("name", deployment.name).member("model", deployment.model);
  json.member("tokens_per_event", deployment.tokens_per_event);
  json.member("mean_seconds", deployment.mean_seconds);
  json.member("produced", deployment.produced).member("producing", deployment.producing);
  seconds(json, "refusals_take", deployment.refusals_take);
  seconds(json, "least_round_trip", deployment.least_round_trip);
  seconds(json, "most_round_trip", deployment.most_round_trip);
  write_calls(json, deployment.calls);
  json.end_object();
}

/// An array with one line for each of its values, so that people can read and compare files.
template <class List, class Write>
void write_lines(std::string& out, JsonWriter& json, std::string_view name, const List& list,
                 Write write) {
  out += '\n';
  json.key(name).begin_array();
  for (const auto& one : list) {
    out += '\n';
    write(json, one);
  }
  json.end_array();
}

// ---- reading

/// Where in the text something is, for messages: "meters[3].limit".
struct Spot {
  std::string path;
  [[nodiscard]] Spot at(std::string_view member) const {
    return {path.empty() ? std::string(member) : fmt::format("{}.{}", path, member)};
  }
  [[nodiscard]] Spot at(std::size_t index) const { return {fmt::format("{}[{}]", path, index)}; }
};

/// Reads members of objects. After a fault everything else is left as it is.
class Reader {
 public:
  [[nodiscard]] const std::string& fault() const { return fault_; }
  [[nodiscard]] bool good() const { return fault_.empty(); }

  void wrong(const Spot& spot, std::string_view what) {
    if (good()) fault_ = fmt::format("{} is not {}", spot.path, what);
  }

  /// The member; false where it is absent or null.
  bool find(const element& from, std::string_view name, element& found) const {
    return good() && from[name].get(found) == simdjson::SUCCESS && !found.is_null();
  }

  void read(const element& from, const Spot& spot, std::string_view name, double& value) {
    element found;
    if (!find(from, name, found)) return;
    if (found.get(value) != simdjson::SUCCESS) wrong(spot.at(name), "a number");
  }
  void read(const element& from, const Spot& spot, std::string_view name, std::int64_t& value) {
    element found;
    if (!find(from, name, found)) return;
    if (found.get(value) != simdjson::SUCCESS) wrong(spot.at(name), "a whole number");
  }
  void read(const element& from, const Spot& spot, std::string_view name, bool& value) {
    element found;
    if (!find(from, name, found)) return;
    if (found.get(value) != simdjson::SUCCESS) wrong(spot.at(name), "true or false");
  }
  void read(const element& from, const Spot& spot, std::string_view name, Duration& value) {
    double number = to_seconds(value);
    element found;
    if (!find(from, name, found)) return;
    read(from, spot, name, number);
    if (good()) value = from_seconds(number);
  }
  void read(const element& from, const Spot& spot, std::string_view name, std::string& value) {
    element found;
    if (!find(from, name, found)) return;
    std::string_view text;
    if (found.get(text) != simdjson::SUCCESS) return wrong(spot.at(name), "a text");
    if (text.size() > kLongestName) return wrong(spot.at(name), "a name, it is too long");
    value = text;
  }

  /// Visits at most `most` values of an array member; further ones are passed over.
  template <class Visit>
  void each(const element& from, const Spot& spot, std::string_view name, std::size_t most,
            Visit visit) {
    element found;
    if (!find(from, name, found)) return;
    simdjson::dom::array array;
    if (found.get(array) != simdjson::SUCCESS) return wrong(spot.at(name), "a list");
    std::size_t index = 0;
    for (const element one : array) {
      if (index == most || !good()) return;
      visit(one, spot.at(name).at(index++));
    }
  }

  /// Visits an object member, if it is there.
  template <class Visit>
  void inside(const element& from, const Spot& spot, std::string_view name, Visit visit) {
    element found;
    if (!find(from, name, found)) return;
    if (!found.is_object()) return wrong(spot.at(name), "a map");
    visit(found, spot.at(name));
  }

 private:
  static constexpr std::size_t kLongestName = 4096;
  std::string fault_;
};

/// Two numbers in a list.
template <class First>
bool pair_of(const element& from, First& first, std::int64_t& second) {
  simdjson::dom::array array;
  if (from.get(array) != simdjson::SUCCESS || array.size() != 2) return false;
  return array.at(0).get(first) == simdjson::SUCCESS &&
         array.at(1).get(second) == simdjson::SUCCESS;
}

void read_limit(Reader& reader, const element& from, const Spot& spot, RememberedLimit& limit) {
  reader.read(from, spot, "kept", limit.kept);
  reader.read(from, spot, "most", limit.most);
  reader.read(from, spot, "lump", limit.lump);
  reader.read(from, spot, "refused_ago", limit.refused_ago);
  reader.read(from, spot, "probe_every", limit.probe_every);
  reader.read(from, spot, "probe_next", limit.probe_next);
  reader.read(from, spot, "probe_in", limit.probe_in);
  reader.read(from, spot, "found", limit.found);
}

void read_unit(Reader& reader, const element& from, const Spot& spot, Unit& unit) {
  std::string text(name(unit));
  reader.read(from, spot, "unit", text);
  for (const Unit each : kAllUnits) {
    if (name(each) != text) continue;
    unit = each;
    return;
  }
  reader.wrong(spot.at("unit"), "a unit");
}

RememberedMeter read_meter(Reader& reader, const element& from, const Spot& spot) {
  RememberedMeter meter;
  if (!from.is_object()) reader.wrong(spot, "a map");
  reader.read(from, spot, "name", meter.name);
  if (meter.name.empty()) reader.wrong(spot.at("name"), "there");
  read_unit(reader, from, spot, meter.unit);
  reader.read(from, spot, "window", meter.window);
  reader.read(from, spot, "amount", meter.amount);
  reader.inside(from, spot, "limit", [&](const element& at, const Spot& where) {
    read_limit(reader, at, where, meter.limit.emplace());
  });
  reader.inside(from, spot, "belief", [&](const element& at, const Spot& where) {
    RememberedBelief& belief = meter.belief.emplace();
    reader.read(at, where, "active", belief.active);
    reader.read(at, where, "score", belief.score);
    reader.read(at, where, "met", belief.met);
    reader.read(at, where, "refused_ago", belief.refused_ago);
    reader.read(at, where, "trusted", belief.trusted);
  });
  reader.inside(from, spot, "margin", [&](const element& at, const Spot& where) {
    RememberedMargin& margin = meter.margin.emplace();
    reader.read(at, where, "calls", margin.calls);
    reader.read(at, where, "error_squared", margin.error_squared);
    reader.read(at, where, "output", margin.output);
    reader.read(at, where, "output_squared", margin.output_squared);
  });
  reader.inside(from, spot, "growth", [&](const element& at, const Spot& where) {
    RememberedGrowth& growth = meter.growth.emplace();
    reader.read(at, where, "floor_part", growth.floor_part);
    reader.read(at, where, "ratio_part", growth.ratio_part);
    reader.read(at, where, "refused_ago", growth.refused_ago);
  });
  element charges;
  meter.counted = reader.find(from, "charges", charges);
  reader.each(from, spot, "charges", Memory::kCharges, [&](const element& at, const Spot& where) {
    double age = 0;
    std::int64_t amount = 0;
    if (!pair_of(at, age, amount)) return reader.wrong(where, "[seconds ago, amount]");
    meter.charges.push_back({from_seconds(age), amount});
  });
  reader.read(from, spot, "level", meter.level);
  return meter;
}

void read_calls(Reader& reader, const element& from, const Spot& spot, RememberedCalls& calls) {
  constexpr std::size_t kBuckets = 4096;
  constexpr std::int64_t kSmall = 65'535;
  reader.read(from, spot, "mean", calls.mean);
  reader.read(from, spot, "weight", calls.weight);
  reader.read(from, spot, "variance", calls.variance);
  reader.read(from, spot, "bytes", calls.bytes);
  reader.read(from, spot, "tokens", calls.tokens);
  reader.read(from, spot, "cached", calls.cached);
  reader.read(from, spot, "cacheable", calls.cacheable);
  reader.read(from, spot, "distrust", calls.distrust);
  reader.read(from, spot, "factor", calls.factor);
  reader.read(from, spot, "answers", calls.answers);
  std::array<double*, 4> believed{&calls.believed_mean, &calls.believed_variance,
                                  &calls.believed_tokens_per_byte, &calls.believed_cached_ratio};
  std::size_t next = 0;
  reader.each(from, spot, "believed", believed.size(), [&](const element& at, const Spot& where) {
    if (at.get(*believed[next++]) != simdjson::SUCCESS) reader.wrong(where, "a number");
  });
  reader.each(from, spot, "buckets", kBuckets, [&](const element& at, const Spot& where) {
    std::int64_t bucket = 0;
    std::int64_t count = 0;
    if (!pair_of(at, bucket, count) || bucket < 0 || bucket > kSmall || count < 0 ||
        count > kSmall) {
      return reader.wrong(where, "[bucket, count]");
    }
    calls.buckets.emplace_back(static_cast<std::uint16_t>(bucket),
                               static_cast<std::uint16_t>(count));
  });
}

RememberedDeployment read_deployment(Reader& reader, const element& from, const Spot& spot) {
  RememberedDeployment deployment;
  if (!from.is_object()) reader.wrong(spot, "a map");
  reader.read(from, spot, "name", deployment.name);
  reader.read(from, spot, "model", deployment.model);
  reader.read(from, spot, "tokens_per_event", deployment.tokens_per_event);
  reader.read(from, spot, "mean_seconds", deployment.mean_seconds);
  reader.read(from, spot, "produced", deployment.produced);
  reader.read(from, spot, "producing", deployment.producing);
  reader.read(from, spot, "refusals_take", deployment.refusals_take);
  reader.read(from, spot, "least_round_trip", deployment.least_round_trip);
  reader.read(from, spot, "most_round_trip", deployment.most_round_trip);
  reader.inside(from, spot, "calls", [&](const element& at, const Spot& where) {
    read_calls(reader, at, where, deployment.calls);
  });
  return deployment;
}

RememberedCaller read_caller(Reader& reader, const element& from, const Spot& spot) {
  RememberedCaller caller;
  if (!from.is_object()) reader.wrong(spot, "a map");
  std::string key;
  reader.read(from, spot, "key", key);
  const auto [end, trouble] = std::from_chars(key.data(), key.data() + key.size(), caller.key, 16);
  if (trouble != std::errc() || end != key.data() + key.size()) {
    reader.wrong(spot.at("key"), "a hexadecimal number");
  }
  reader.inside(from, spot, "calls", [&](const element& at, const Spot& where) {
    read_calls(reader, at, where, caller.calls);
  });
  return caller;
}

void read_written(Reader& reader, const element& top, WrittenMemory& into) {
  const Spot spot;
  double wall = 0;
  element found;
  if (!reader.find(top, "written_unix", found)) reader.wrong(spot.at("written_unix"), "there");
  reader.read(top, spot, "written_unix", wall);
  into.written.wall = WallTime(from_seconds(wall));
  reader.read(top, spot, "boot", into.written.boot);
  reader.read(top, spot, "since_boot", into.written.since_boot);
  reader.read(top, spot, "complete", into.complete);
}

}  // namespace

std::string memory_to_json(const WrittenMemory& memory) {
  std::string out;
  JsonWriter json(out);
  json.begin_object();
  json.member("format", kFormat).member("version", kVersion);
  json.member("written", calendar(memory.written.wall));
  json.member("written_unix", in_seconds(memory.written.wall.time_since_epoch()));
  json.member("boot", memory.written.boot);
  json.member("since_boot", in_seconds(memory.written.since_boot));
  json.member("complete", memory.complete);
  json.member("left_out", static_cast<std::int64_t>(memory.memory.left_out));
  write_lines(out, json, "deployments", memory.memory.deployments, write_deployment);
  write_lines(out, json, "meters", memory.memory.meters, write_meter);
  write_lines(out, json, "callers", memory.memory.callers,
              [](JsonWriter& at, const RememberedCaller& caller) {
                at.begin_object().member("key", fmt::format("{:016x}", caller.key));
                write_calls(at, caller.calls);
                at.end_object();
              });
  json.end_object();
  out += '\n';
  return out;
}

Result<WrittenMemory> memory_from_json(std::string_view text) {
  simdjson::dom::parser parser;
  element top;
  if (const auto trouble = parser.parse(text.data(), text.size()).get(top)) {
    return fail(ErrorCode::malformed,
                fmt::format("its {} bytes are not JSON ({})", text.size(),
                            simdjson::error_message(trouble)),
                Origin::store);
  }
  std::string_view format;
  std::int64_t version = 0;
  if (!top.is_object() || top["format"].get(format) != simdjson::SUCCESS || format != kFormat) {
    return fail(ErrorCode::malformed, fmt::format("its \"format\" is not \"{}\"", kFormat),
                Origin::store);
  }
  if (top["version"].get(version) != simdjson::SUCCESS || version != kVersion) {
    return fail(ErrorCode::unsupported,
                fmt::format("its \"version\" is not {}, which this program writes", kVersion),
                Origin::store);
  }
  WrittenMemory made;
  Reader reader;
  read_written(reader, top, made);
  reader.each(top, {}, "deployments", Memory::kMeters, [&](const element& at, const Spot& where) {
    made.memory.deployments.push_back(read_deployment(reader, at, where));
  });
  reader.each(top, {}, "meters", Memory::kMeters, [&](const element& at, const Spot& where) {
    made.memory.meters.push_back(read_meter(reader, at, where));
  });
  reader.each(top, {}, "callers", Memory::kCallers, [&](const element& at, const Spot& where) {
    made.memory.callers.push_back(read_caller(reader, at, where));
  });
  if (!reader.good()) return fail(ErrorCode::malformed, reader.fault(), Origin::store);
  return made;
}

}  // namespace weir::stores
