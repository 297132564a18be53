// Text from outside as a part of a page: none of it is markup or script, wherever it stands.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace millrace::bench {

// For the content of elements and for attributes in quotes. What is not UTF-8 and what is a control
// character is replaced by U+FFFD.
std::string html_escaped(std::string_view text);

// JSON for the inside of a <script>: neither `</script` nor `<!--` nor a line separator can be in
// it, nor a tag of Jekyll's Liquid. It is the same value to every parser.
std::string script_json(const json::value& value);
// The same for JSON that is text already.
std::string script_safe_json(std::string_view json_text);

std::string base64(std::string_view bytes);

// The template with each `{{name}}` replaced by its value, in one pass: values are not looked into.
// REQUIRES: every name of the template has a value.
std::string fill_template(
    std::string_view page, const std::vector<std::pair<std::string_view, std::string>>& values
);

// "12,345"
std::string count_text(int64_t count);

// A figure as people read it: about three digits, thousands apart: "0.042", "3.14", "12,345".
std::string figure_text(double value);

}  // namespace millrace::bench
