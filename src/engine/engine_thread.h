// What the threads of all engines have in common.
#pragma once

namespace millrace {

// Names the calling thread "engine" and has the kernel schedule it as one that computes (Linux:
// SCHED_BATCH): when it wakes on a core where another thread runs, that one goes on until it sleeps
// or has had its share. So the I/O thread that submits several requests in a row hands them over
// together, with one switch between the threads and not one for each: 31 thousand short requests a
// second become 52 thousand where both share a core (docs/benchmarks/frontend.md). Its share of the
// time is the same.
void become_engine_thread();

}  // namespace millrace
