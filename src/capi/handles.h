// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "weir/governor.h"
#include "weir/weir.h"

namespace weir::capi {

/// What both handles have: the text of the last error, and the mark of one that cannot go on.
/// Threads: one owner, as the handle it is part of.
struct Faulty {
  std::string error;
  std::int32_t broken = WEIR_OK;

  /// Notes what is wrong and hands the code back.
  std::int32_t fail(std::int32_t status, std::string text) {
    error = std::move(text);
    return status;
  }
  /// The last error's text; one that needs no memory for a handle that cannot go on.
  [[nodiscard]] const char* text() const {
    return broken == WEIR_OK ? error.c_str() : weir_status_text(broken);
  }
};

/// Runs `work` so that no exception passes the C boundary. After one, what the handle holds may be
/// half changed: it answers the same error to everything but its destruction.
template <class Handle, class Work>
std::int32_t guarded(Handle* handle, Work&& work) noexcept {
  if (handle == nullptr) return WEIR_ERROR_NULL;
  if (handle->broken != WEIR_OK) return handle->broken;
  try {
    return std::forward<Work>(work)(*handle);
  } catch (const std::bad_alloc&) {
    handle->broken = WEIR_ERROR_MEMORY;
  } catch (...) {
    handle->broken = WEIR_ERROR_INTERNAL;
  }
  return handle->broken;
}

/// Makes the governor's policy of a handle's: with what is left out, and a node for each model
/// behind the program's own. Errors: NOT_FOUND with a text, where it could serve nothing.
std::int32_t complete(weir_policy& from, std::shared_ptr<const Policy>& made);

}  // namespace weir::capi

/// A policy while it is put together. Models have no node yet, so that the numbers of the program's
/// nodes count from 0.
struct weir_policy : weir::capi::Faulty {
  weir::Policy policy;
  std::vector<std::vector<weir::Rule>> model_limits;
  std::vector<int> node_depths;
  std::set<std::string> node_names;  // there may be a million
};

struct weir_governor : weir::capi::Faulty {
  weir_governor(std::shared_ptr<const weir::Policy> policy, std::uint64_t seed, weir::Instant now)
      : governor(std::move(policy), seed, now) {}
  weir::governor::Governor governor;
  weir::governor::Snapshot snapshot;
  std::vector<weir::governor::Event> events;
};
