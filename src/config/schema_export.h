// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/schema.h"

namespace weir::config {

/// config/weir.schema.json: a JSON Schema (draft 2020-12) for editors, made from the table of
/// schema.h. It knows what this version takes; `weir check` knows more.
std::string json_schema();

/// docs/reference/configuration.md, made from the same table.
std::string configuration_markdown();

/// The tables of a record and of those it holds, for the pages of other files in this vocabulary.
std::string tables_markdown(const Record& root);

}  // namespace weir::config
