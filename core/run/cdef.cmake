# Preprocesses HEADER with MR_CDEF and writes it to OUT as C string literals,
# one a line.
execute_process(COMMAND ${CC} -E -P -DMR_CDEF ${HEADER}
  OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE "\\\\" "\\\\\\\\" text "${text}")
string(REGEX REPLACE "\"" "\\\\\"" text "${text}")
string(REGEX REPLACE "\n" "\\\\n\"\n\"" text "${text}")
file(WRITE ${OUT} "\"${text}\"\n")
