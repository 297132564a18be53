// The tables of a page: complete without a script, which only makes them sortable. All texts of
// rows are escaped. Each function gives an empty string where there is nothing to show.
#pragma once

#include <string>

#include "report/html/rows.h"

namespace millrace::bench {

// Every row with its verdict and its figures; columns that no row has are left out.
std::string summary_table(const PageRows& page);

// The findings of each row that has some, and examples of errors.
std::string verdict_list(const PageRows& page);

// TTFT and E2E from the sending and from the schedule, side by side.
std::string clocks_table(const PageRows& page);

// Limits of the hardware and the share of them that was reached.
std::string limits_table(const PageRows& page);

// What the client itself adds to times, and its own load.
std::string client_table(const PageRows& page);

// What all rows have in common, then what differs from row to row.
std::string setup_tables(const PageRows& page);

// Of where the client ran: what the records say, without "command".
std::string environment_table(const PageRows& page);

// A few figures of the whole page.
std::string headline_tiles(const PageRows& page);

}  // namespace millrace::bench
