// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "config/config.h"
#include "config/effective.h"
#include "config/section.h"
#include "config/sha256.h"

namespace weir::config {

/// Fills `config` from a file that `check` has looked at: everything that one value cannot say of
/// itself, above all references. Faults are added; `config` is of use only if there are none.
void build(const Section& root, Config& config, Origins& origins, Faults& faults);

/// The providers, with their secrets. Part of `build`.
void build_providers(const Section& root, Config& config, Faults& faults);

/// The data and the admin plane. Part of `build`.
void build_planes(const Section& root, Config& config, Faults& faults);

/// Organisation, tenants, teams and keys. Part of `build`; classes and models stand already.
void build_hierarchy(const Section& root, Config& config, Faults& faults);

/// A file named in the configuration: a relative path is looked for beside the configuration file,
/// then in the working directory.
std::string resolve(const std::string& path, const std::string& beside);

/// The whole of a file of at most `most` bytes. Errors: io, too_large.
Result<std::string> read_whole(const std::string& path, std::size_t most);

/// The secret under `key` or in the file under `<key>_file`.
Secret read_secret(const Section& section, const std::string& key, const Config& config,
                   Faults& faults);

/// The first eight bytes of a hash.
std::uint64_t hash_prefix(const Sha256& hash);

/// The mode under "mode", or the one that holds above.
Mode mode_of(const Section& section, Mode above);

}  // namespace weir::config
