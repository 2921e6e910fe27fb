# Finds the libraries. Required ones stop the configuration; each optional feature ends as a FIVEFOLD_HAVE_x variable
# and one line of output.
set(Boost_USE_STATIC_LIBS ${FIVEFOLD_STATIC_DEPS})
find_package(Threads REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options log)
find_package(nlohmann_json 3 REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)

# fivefold_find_library(TARGET HEADER NAMES...) makes an imported TARGET of a library that ships no CMake package.
function(fivefold_find_library target header)
  find_path(${target}_INCLUDE ${header} PATHS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(${target}_LIBRARY NAMES ${ARGN} PATHS ${CUDAToolkit_LIBRARY_DIR})
  if(${target}_INCLUDE AND ${target}_LIBRARY)
    add_library(${target} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${${target}_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${${target}_INCLUDE})
  endif()
endfunction()

function(fivefold_require_library target header)
  fivefold_find_library(${target} ${header} ${ARGN})
  if(NOT TARGET ${target})
    message(FATAL_ERROR "${header} or its library was not found: './dev build' installs what is missing")
  endif()
endfunction()

set(fivefold_zstd_names zstd)
if(FIVEFOLD_STATIC_DEPS)
  set(fivefold_zstd_names libzstd.a)
  add_link_options(-static-libstdc++ -static-libgcc)
endif()
fivefold_require_library(fivefold_zstd zstd.h ${fivefold_zstd_names})
fivefold_require_library(fivefold_xxhash xxhash.h xxhash)
fivefold_require_library(fivefold_openblas cblas.h openblas)

# fivefold_feature(NAME SETTING FOUND) decides FIVEFOLD_HAVE_<NAME>, and stops where ON asks for what is not there.
macro(fivefold_feature name setting found)
  set(FIVEFOLD_HAVE_${name} OFF)
  if(NOT "${setting}" STREQUAL OFF AND ${found})
    set(FIVEFOLD_HAVE_${name} ON)
  elseif("${setting}" STREQUAL ON)
    message(FATAL_ERROR "FIVEFOLD_${name}=ON, but it was not found")
  endif()
endmacro()

# --- CUDA: the toolkit may lie outside PATH ---
if(NOT FIVEFOLD_CUDA STREQUAL OFF)
  find_program(FIVEFOLD_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda /opt/cuda)
endif()
fivefold_feature(CUDA "${FIVEFOLD_CUDA}" FIVEFOLD_NVCC)
if(FIVEFOLD_HAVE_CUDA)
  set(CMAKE_CUDA_COMPILER ${FIVEFOLD_NVCC})
  set(CMAKE_CUDA_ARCHITECTURES OFF)  # the -gencode flags below name them, with the 'a' that Hopper code needs
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
  foreach(arch IN LISTS FIVEFOLD_CUDA_ARCHS)
    add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-gencode=arch=compute_${arch},code=sm_${arch}>)
  endforeach()
  message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} (${FIVEFOLD_NVCC}) for sm_${FIVEFOLD_CUDA_ARCHS}")
elseif(FIVEFOLD_CUDA STREQUAL OFF)
  message(STATUS "CPU-only build (FIVEFOLD_CUDA=OFF)")
else()
  message(STATUS "no CUDA toolkit: CPU-only build")
endif()

if(FIVEFOLD_HAVE_CUDA)
  fivefold_find_library(fivefold_nccl nccl.h nccl)
endif()
fivefold_feature(NCCL AUTO "TARGET;fivefold_nccl")

# --- MPI: the C interface only ---
if(NOT FIVEFOLD_MPI STREQUAL OFF)
  find_package(MPI QUIET COMPONENTS C)
endif()
fivefold_feature(MPI "${FIVEFOLD_MPI}" MPI_C_FOUND)

if(NOT FIVEFOLD_ONEDNN STREQUAL OFF)
  fivefold_find_library(fivefold_onednn dnnl.hpp dnnl)
endif()
fivefold_feature(ONEDNN "${FIVEFOLD_ONEDNN}" "TARGET;fivefold_onednn")

message(STATUS "features: CUDA ${FIVEFOLD_HAVE_CUDA}, NCCL ${FIVEFOLD_HAVE_NCCL}, MPI ${FIVEFOLD_HAVE_MPI}, "
               "oneDNN ${FIVEFOLD_HAVE_ONEDNN}")
