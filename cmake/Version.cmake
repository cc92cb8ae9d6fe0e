# SPDX-License-Identifier: Apache-2.0
# The commit that `weir version` prints; "unknown" outside a git checkout.
find_package(Git QUIET)
set(WEIR_COMMIT unknown)
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --short=12 HEAD
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE commit RESULT_VARIABLE failed
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(WEIR_COMMIT ${commit})
  endif()
endif()
