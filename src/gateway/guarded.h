// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <utility>

// clang checks these at compile time (-Wthread-safety); other compilers do not know them.
#if defined(__clang__)
#define WEIR_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define WEIR_THREAD_ATTRIBUTE(x)
#endif

namespace weir::gateway {

/// A std::mutex that thread-safety analysis knows. Threads: any.
class WEIR_THREAD_ATTRIBUTE(capability("mutex")) Mutex {
 public:
  void lock() WEIR_THREAD_ATTRIBUTE(acquire_capability()) { mutex_.lock(); }
  void unlock() WEIR_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Holds a Mutex for a scope.
class WEIR_THREAD_ATTRIBUTE(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) WEIR_THREAD_ATTRIBUTE(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~Lock() WEIR_THREAD_ATTRIBUTE(release_capability()) { mutex_.unlock(); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

/// A mutex that owns its data: the only way to the data is through `with`, under the lock.
/// What `with` runs must be short and must not call out of this process's decisions: no I/O, no
/// parsing, no logging. Threads: any.
template <class T>
class Guarded {
 public:
  template <class... Arguments>
  explicit Guarded(Arguments&&... arguments) : value_(std::forward<Arguments>(arguments)...) {}

  template <class Work>
  decltype(auto) with(Work&& work) {
    const Lock lock(mutex_);
    return std::forward<Work>(work)(value_);
  }

 private:
  Mutex mutex_;
  T value_ WEIR_THREAD_ATTRIBUTE(guarded_by(mutex_));
};

}  // namespace weir::gateway
