# SPDX-License-Identifier: Apache-2.0
# The warnings every own target is built with; they are errors.
add_library(weir_warnings INTERFACE)
target_compile_options(weir_warnings INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wswitch-enum -Wnon-virtual-dtor -Wold-style-cast -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # clang counts -Wsign-conversion to -Wconversion, g++ does not for C++; and it reports libstdc++'s
  # own use of a deprecated function inside std::stable_sort as ours.
  target_compile_options(weir_warnings INTERFACE
    -Wthread-safety -Wno-sign-conversion -Wno-deprecated-declarations)
else()
  # g++ 12 reports moved-from std::optional and std::string members as maybe uninitialized, and
  # overlapping copies inside inlined std::string code, in optimized builds (GCC bugs 105562 and
  # 105651).
  target_compile_options(weir_warnings INTERFACE
    -Wno-maybe-uninitialized -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)
endif()
