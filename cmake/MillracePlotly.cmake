# Where plotly.js lies, which report/ embeds: tools/fetch_packages.py puts it into the user's cache folder.
set(MILLRACE_PLOTLY "" CACHE FILEPATH "plotly.min.js; empty: the one that ./dev setup fetches")

# millrace_find_plotly(<variable>): the file's path, or an end of the configuration that says how to get it.
function(millrace_find_plotly variable)
  if(MILLRACE_PLOTLY)
    set(path ${MILLRACE_PLOTLY})
  else()
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    execute_process(
      COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/tools/fetch_packages.py --where plotly
      OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY
    )
  endif()
  if(NOT EXISTS ${path})
    message(FATAL_ERROR "${path} is missing: `./dev setup` fetches it (python3 tools/fetch_packages.py plotly), or set MILLRACE_PLOTLY")
  endif()
  set(${variable} ${path} PARENT_SCOPE)
endfunction()
