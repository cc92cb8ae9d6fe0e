# SPDX-License-Identifier: Apache-2.0
# cmake -DGIT_FOLDER=… -DHEADER=… -P WriteCommit.cmake
# HEAD holds a commit, or names a branch whose commit stands in a file of its own or in packed-refs.
set(commit unknown)
if(EXISTS ${GIT_FOLDER}/HEAD)
  file(STRINGS ${GIT_FOLDER}/HEAD head LIMIT_COUNT 1)
  if(head MATCHES "^ref: (.*)$")
    set(branch ${CMAKE_MATCH_1})
    if(EXISTS ${GIT_FOLDER}/${branch})
      file(STRINGS ${GIT_FOLDER}/${branch} head LIMIT_COUNT 1)
    elseif(EXISTS ${GIT_FOLDER}/packed-refs)
      file(STRINGS ${GIT_FOLDER}/packed-refs head REGEX " ${branch}$" LIMIT_COUNT 1)
    endif()
  endif()
  if(head MATCHES "^[0-9a-f]+")
    string(SUBSTRING "${head}" 0 12 commit)
  endif()
endif()
file(WRITE ${HEADER} "#pragma once\ninline constexpr const char* kCommit = \"${commit}\";\n")
