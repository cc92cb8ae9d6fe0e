// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weir::config {

/// config/weir.schema.json: a JSON Schema (draft 2020-12) for editors, made from the table of
/// schema.h. It knows what this version takes; `weir check` knows more.
std::string json_schema();

/// docs/reference/configuration.md, made from the same table.
std::string configuration_markdown();

}  // namespace weir::config
