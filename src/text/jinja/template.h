// A sandboxed subset of Jinja 3.1 as Hugging Face runs chat templates:
// ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks, loop controls, {% generation %},
// raise_exception, strftime_now and a tojson that escapes nothing. Parsed once; render() is const
// and may run in many threads.
//
// Known differences from Python: integers have 64 bits and overflow is an error, while one of an
// input that is beyond uint64 was read as a float; int / int rounds both to floats first; a float
// literal beyond the range of floats is 0; the precision of a format ends at 400 digits, that of
// str.format and % at 2^24; include, import, from, extends, block and autoescape are refused by
// name, as are the filters filesizeformat, pprint, random, urlize, wordwrap and xmlattr and the
// function lipsum; escape gives a plain string; what Python would show with an address in it (a
// function, a generator) is an error.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "text/byte_range.h"
#include "text/jinja/limits.h"

namespace millrace::jinja {

struct Program;

// A member of objects and the values of it that are as good as the template's own.
struct OwnWords {
  std::string_view member;
  std::span<const std::string_view> words;
};

// One name that a template can use. Every string inside of an input is marked as such, except for
// `own_words` of the objects in `value`, if that is an array.
struct Variable {
  std::string name;
  json::value value;
  bool is_input = true;
  OwnWords own_words = {};
};

struct Rendered {
  std::string text;
  // Where the text came from an input; sorted, and not touching one another.
  std::vector<ByteRange> input_ranges;
};

class Template {
 public:
  // kInvalidArgument for a syntax error, with the line in `where`.
  static Result<Template> parse(std::string_view source, const Limits& limits = {});

  // `now` is what strftime_now() shows: the local time of the caller's choice.
  //
  // kInvalidArgument: the template raised (with exactly its message) or did what Python refuses.
  // kUnsupported: it used what this subset leaves out. kResourceExhausted: it met a limit.
  Result<Rendered> render(const std::vector<Variable>& variables, std::chrono::local_seconds now)
      const;

  // Whether the source uses a variable of this name, on whichever way through it.
  bool reads(std::string_view name) const;
  // Whether it may look at a member of an object by this name: the name stands there as an
  // attribute or as a string.
  bool reads_member(std::string_view name) const;

 private:
  Template(std::shared_ptr<const Program> program, const Limits& limits)
      : program_(std::move(program)), limits_(limits) {}

  std::shared_ptr<const Program> program_;  // shared by copies of the template
  Limits limits_;
};

}  // namespace millrace::jinja
