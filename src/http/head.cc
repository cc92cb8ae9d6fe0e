// SPDX-License-Identifier: Apache-2.0
#include "http/head.h"

#include "http/text.h"

namespace weir::http {

std::string_view Fields::find(std::string_view name) const {
  for (const Field& field : fields_) {
    if (same_word(field.name, name)) return field.value;
  }
  return {};
}

bool Fields::has(std::string_view name) const {
  for (const Field& field : fields_) {
    if (same_word(field.name, name)) return true;
  }
  return false;
}

}  // namespace weir::http
