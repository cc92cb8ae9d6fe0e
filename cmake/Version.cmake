# SPDX-License-Identifier: Apache-2.0
# weir_commit_header(VARIABLE): a rule for commit.h, which holds the commit that `weir version`
# prints ("unknown" outside a git checkout). It is made anew when the checkout moves to another
# commit and at no other time, so a second build has nothing to do.
function(weir_commit_header variable)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/generated/commit.h)
  set(journal "")
  find_package(Git QUIET)
  if(GIT_FOUND)
    execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --path-format=absolute --git-path logs/HEAD
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE
      RESULT_VARIABLE failed ERROR_QUIET)
    if(NOT failed AND EXISTS "${found}")
      set(journal "${found}")
    endif()
  endif()
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DGIT=${GIT_EXECUTABLE} -DSOURCE=${CMAKE_SOURCE_DIR} -DHEADER=${header}
      -P ${CMAKE_SOURCE_DIR}/cmake/WriteCommit.cmake
    DEPENDS ${CMAKE_SOURCE_DIR}/cmake/WriteCommit.cmake ${journal}
    COMMENT "Noting the commit" VERBATIM)
  set(${variable} ${header} PARENT_SCOPE)
endfunction()
