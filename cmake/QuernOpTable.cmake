# Writes generated/op_table.c from the names of the files in graph/ops/.
set(QUERN_OP_TABLE ${CMAKE_BINARY_DIR}/generated/op_table.c)
set(externs "")
set(rows "")
set(count 0)
foreach(file ${QUERN_OPS})
  get_filename_component(op ${file} NAME_WE)
  if(NOT op MATCHES "^_") # a leading underscore marks a family's shared code, not a row
    string(APPEND externs "extern const qn_op qn_op_${op};\n")
    string(APPEND rows "\t&qn_op_${op},\n")
    math(EXPR count "${count} + 1")
  endif()
endforeach()
file(CONFIGURE OUTPUT ${QUERN_OP_TABLE} @ONLY CONTENT
"/* written by cmake/QuernOpTable.cmake */
#include \"graph/op.h\"
${externs}const qn_op *const qn_ops[] = {
${rows}};
const size_t qn_n_ops = ${count};
")
