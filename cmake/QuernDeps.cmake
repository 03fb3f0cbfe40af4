# The libraries that we stand on; `scripts/setup` installs them.
find_package(PkgConfig REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
pkg_check_modules(CJSON REQUIRED IMPORTED_TARGET libcjson)
pkg_check_modules(ARCHIVE REQUIRED IMPORTED_TARGET libarchive)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(BLAS REQUIRED IMPORTED_TARGET openblas)
pkg_check_modules(LAPACKE REQUIRED IMPORTED_TARGET lapacke)
find_program(PROTOC_C NAMES protoc-c REQUIRED)

add_library(quern_deps INTERFACE)
target_link_libraries(quern_deps INTERFACE PkgConfig::PROTOBUF_C PkgConfig::CJSON PkgConfig::ARCHIVE PkgConfig::ZLIB PkgConfig::LAPACKE
  PkgConfig::BLAS OpenMP::OpenMP_C m)

function(quern_protobuf out proto)
  get_filename_component(name ${proto} NAME_WE)
  get_filename_component(dir ${proto} DIRECTORY)
  set(base ${CMAKE_BINARY_DIR}/generated/schema/${name}.pb-c)
  add_custom_command(OUTPUT ${base}.c ${base}.h
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/generated/schema
    COMMAND ${PROTOC_C} --c_out=${CMAKE_BINARY_DIR}/generated/schema --proto_path=${dir} ${proto}
    DEPENDS ${proto} VERBATIM)
  set_source_files_properties(${base}.c PROPERTIES COMPILE_OPTIONS "-w")
  set(${out} ${base}.c ${base}.h PARENT_SCOPE)
endfunction()
