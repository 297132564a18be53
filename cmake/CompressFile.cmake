# Script: cmake -DGZIP=<program> -DINPUT=<file> -DOUTPUT=<file.gz> -P CompressFile.cmake
# The same bytes for the same input: no name and no time in it.
execute_process(COMMAND ${GZIP} -9 -n -c INPUT_FILE ${INPUT} OUTPUT_FILE ${OUTPUT} COMMAND_ERROR_IS_FATAL ANY)
