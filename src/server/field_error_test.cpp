// That an error's message names the field as its path does.
#include "server/field_error.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

// The path was once moved into its place before the message was worded with it.
TEST(FieldError, NamesTheFieldInItsMessageAndInItsPath) {
  for (const Error& error :
       {wrong_type("a[1].b", "a string", json::value(1)),
        wrong_value("a[1].b", "right"),
        missing_field("a[1].b", "something"),
        unknown_field("a[1].b"),
        unsupported_field("a[1].b", "not yet"),
        too_many_entries("a[1].b", 3, 2)}) {
    EXPECT_EQ(error.where, "a[1].b");
    EXPECT_NE(error.message.find("a[1].b"), std::string::npos) << error.message;
  }
}

}  // namespace
}  // namespace millrace
