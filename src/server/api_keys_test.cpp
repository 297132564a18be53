#include "server/api_keys.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(ApiKeys, AdmitsEveryoneWithoutKeys) {
  EXPECT_TRUE(ApiKeys({}).admit(""));
  EXPECT_TRUE(ApiKeys({}).admit("Bearer anything"));
}

TEST(ApiKeys, AdmitsEachKeyInWhateverCaseTheSchemeIsWritten) {
  const ApiKeys keys({"first", "second key"});
  EXPECT_TRUE(keys.admit("Bearer first"));
  EXPECT_TRUE(keys.admit("bearer second key"));
}

TEST(ApiKeys, RefusesAllElse) {
  const ApiKeys keys({"secret"});
  for (const char* shown :
       {"",
        "Bearer",
        "Bearer ",
        "secret",
        "Basic secret",
        "Bearer secre",
        "Bearer secret ",
        "Bearer secretsecret",
        "Bearer Secret",
        "Bearer  secret"}) {
    EXPECT_FALSE(keys.admit(shown)) << shown;
  }
}

}  // namespace
}  // namespace millrace
