# SPDX-License-Identifier: Apache-2.0
# weir_module(NAME governor
#   HEADERS meter.h SOURCES meter.cc TESTS meter_test.cc
#   DEPS weir_base PRIVATE simdjson::simdjson)
#
# One static library `weir_<name>` of the current folder, one test program `weir_<name>_test` whose
# cases are CTest tests with the label "unit", and a check that each header compiles alone (target
# all_verify_interface_header_sets).
function(weir_module)
  cmake_parse_arguments(M "" "NAME" "HEADERS;SOURCES;TESTS;DEPS;PRIVATE" ${ARGN})
  set(target weir_${M_NAME})
  add_library(${target} STATIC ${M_SOURCES})
  target_sources(${target} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${CMAKE_SOURCE_DIR}/src FILES ${M_HEADERS})
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/include ${CMAKE_SOURCE_DIR}/src)
  set_target_properties(${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON LINKER_LANGUAGE CXX)
  target_link_libraries(${target} PUBLIC ${M_DEPS} PRIVATE weir_warnings ${M_PRIVATE})
  if(WEIR_TESTS AND M_TESTS)
    weir_test(NAME ${target}_test SOURCES ${M_TESTS} DEPS ${target} ${M_PRIVATE} LABELS unit)
  endif()
endfunction()

# weir_test(NAME x SOURCES … DEPS … LABELS property [TIMEOUT 60]): a gtest program whose cases are
# CTest tests.
function(weir_test)
  cmake_parse_arguments(T "" "NAME;TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 60)
  endif()
  add_executable(${T_NAME} ${T_SOURCES})
  target_link_libraries(${T_NAME} PRIVATE ${T_DEPS} weir_warnings GTest::gtest_main)
  target_compile_definitions(${T_NAME} PRIVATE WEIR_SOURCE_DIR=".")
  # Tests run in the source folder, so that no path of this machine is compiled in.
  gtest_discover_tests(${T_NAME} DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
    PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT})
endfunction()

# weir_fuzzer(NAME http_head SOURCES … DEPS …): a libFuzzer program, only with WEIR_FUZZ.
function(weir_fuzzer)
  cmake_parse_arguments(F "" "NAME" "SOURCES;DEPS" ${ARGN})
  if(WEIR_FUZZ)
    add_executable(fuzz_${F_NAME} ${F_SOURCES})
    target_link_libraries(fuzz_${F_NAME} PRIVATE ${F_DEPS} weir_warnings)
    target_link_options(fuzz_${F_NAME} PRIVATE -fsanitize=fuzzer)
  endif()
endfunction()
