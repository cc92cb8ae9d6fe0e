# SPDX-License-Identifier: Apache-2.0
# weir_commit_header(VARIABLE): a rule for commit.h, which holds the commit that `weir version`
# prints ("unknown" outside a git checkout). It is made anew when the checkout moves to another
# commit and at no other time, so a second build has nothing to do. Git itself is not needed.
function(weir_commit_header variable)
  set(header ${CMAKE_CURRENT_BINARY_DIR}/generated/commit.h)
  set(journal ${CMAKE_SOURCE_DIR}/.git/logs/HEAD)
  if(NOT EXISTS ${journal})
    set(journal "")
  endif()
  add_custom_command(OUTPUT ${header}
    COMMAND ${CMAKE_COMMAND} -DGIT_FOLDER=${CMAKE_SOURCE_DIR}/.git -DHEADER=${header}
      -P ${CMAKE_SOURCE_DIR}/cmake/WriteCommit.cmake
    DEPENDS ${CMAKE_SOURCE_DIR}/cmake/WriteCommit.cmake ${journal}
    COMMENT "Noting the commit" VERBATIM)
  set(${variable} ${header} PARENT_SCOPE)
endfunction()
