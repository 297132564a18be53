// What the page's script draws, as JSON.
#pragma once

#include "base/json.h"
#include "report/html/rows.h"

namespace millrace::bench {

// {"frameworks": [name], "series": [{name, framework}], "rows": [{name, full_name, series, trust,
// load, throughputs, metrics, and, where there is a record, curves and timeline}]}. Times are in
// milliseconds, those of the time line in seconds; what is null was not said or is infinite.
json::object page_data(const PageRows& page);

}  // namespace millrace::bench
