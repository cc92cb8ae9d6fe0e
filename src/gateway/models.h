// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "gateway/handler.h"
#include "gateway/plan.h"

namespace weir::gateway {

/// Whether the key may name this model.
bool may_use(const Identity& identity, std::string_view model);

/// The body of `GET /v1/models`: the profiles the key may name; "*" is not one of them.
std::string models_body(const Plan& plan, const Identity& identity);

/// What a caller is told who names a model that there is not: what it may have meant, of what its
/// key may name.
std::string unknown_model_text(const Plan& plan, const Identity& identity, std::string_view model);

/// The body of `GET /v1/models/{id}`; empty: there is none for this key.
std::string model_body(const Plan& plan, const Identity& identity, std::string_view model);

}  // namespace weir::gateway
