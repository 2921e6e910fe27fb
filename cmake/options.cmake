# Switches of the build and the flags that hold for every target.
set(FIVEFOLD_CUDA AUTO CACHE STRING "CUDA parts: AUTO (when nvcc is found), ON or OFF")
set(FIVEFOLD_CUDA_ARCHS 90a CACHE STRING "GPU architectures to compile for, as a list: 90a;100a")
set(FIVEFOLD_MPI AUTO CACHE STRING "MPI transport: AUTO, ON or OFF")
set(FIVEFOLD_ONEDNN AUTO CACHE STRING "oneDNN kernels for bf16 on the CPU: AUTO, ON or OFF")
set(FIVEFOLD_SANITIZE "" CACHE STRING "Sanitizers, as -fsanitize= takes them")
option(FIVEFOLD_STATIC_DEPS "Link Boost, zstd and the C++ runtime statically: the binary runs on another machine" OFF)
option(FIVEFOLD_WERROR "Warnings are errors" OFF)
option(FIVEFOLD_TESTS "Build the tests" ON)

set(fivefold_default_march "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(fivefold_default_march x86-64-v3)
endif()
set(FIVEFOLD_MARCH "${fivefold_default_march}" CACHE STRING "-march of the C++ code, e.g. native; empty: the compiler's own")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g1")
set(CMAKE_CUDA_FLAGS_RELWITHDEBINFO "-O3 -lineinfo")
set(CMAKE_CUDA_FLAGS_DEBUG "-g -G")
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(FIVEFOLD_CCACHE ccache)
if(FIVEFOLD_CCACHE)
  # The build folder goes neither into the cache's keys nor into the debug information: all presets share objects.
  set(launcher ${CMAKE_COMMAND} -E env CCACHE_NOHASHDIR=1 ${FIVEFOLD_CCACHE})
  foreach(language C CXX CUDA)
    set(CMAKE_${language}_COMPILER_LAUNCHER ${launcher})
  endforeach()
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fdebug-prefix-map=${CMAKE_BINARY_DIR}=build>)
endif()

# CMake 3.25 knows no C++20 for CUDA, so the language level is a plain flag for both.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-std=c++20> $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
# The two that are off: designated initialisers may leave fields at their defaults; g++ 12 warns wrongly of string
# concatenation (restrict).
add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow>"
                    "$<$<COMPILE_LANGUAGE:CXX>:-Wno-missing-field-initializers;-Wno-restrict>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>")
if(FIVEFOLD_WERROR)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Werror> $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(FIVEFOLD_MARCH)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-march=${FIVEFOLD_MARCH}>)
endif()
if(FIVEFOLD_SANITIZE)  # g++ sees uninitialised values in what the sanitizers insert
  set(flags -fsanitize=${FIVEFOLD_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -Wno-maybe-uninitialized)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${flags}>")
  add_link_options(-fsanitize=${FIVEFOLD_SANITIZE})
endif()
include_directories(${CMAKE_SOURCE_DIR})
