# SPDX-License-Identifier: Apache-2.0
# cmake -DGIT=… -DSOURCE=… -DHEADER=… -P WriteCommit.cmake
set(commit unknown)
if(GIT)
  execute_process(COMMAND ${GIT} rev-parse --short=12 HEAD WORKING_DIRECTORY ${SOURCE}
    OUTPUT_VARIABLE found RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed)
    set(commit ${found})
  endif()
endif()
file(WRITE ${HEADER} "#pragma once\ninline constexpr const char* kCommit = \"${commit}\";\n")
