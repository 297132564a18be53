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

TEST(ApiKeys, NamesATenantForEachKeyWithoutTellingIt) {
  const ApiKeys keys({"secret-one", "secret-two"});
  const std::string one = keys.tenant_of("Bearer secret-one");
  const std::string two = keys.tenant_of("bearer secret-two");
  EXPECT_NE(one, two);
  for (const std::string& name : {one, two}) {
    EXPECT_NE(name, "");
    EXPECT_EQ(name.find("secret"), std::string::npos);
  }
  EXPECT_EQ(keys.tenant_of("Bearer secret-one"), one);
  EXPECT_EQ(keys.tenant_of("Bearer wrong"), "");
  EXPECT_EQ(ApiKeys({}).tenant_of("Bearer secret-one"), "") << "nobody is asked for a key";
}

// They were taken, and no client could show them.
TEST(ApiKeys, KeysThatNoFieldCarriesAreRefused) {
  for (const char* key : {"", "abc ", " abc", "abc\t", "abc\n", "a\x01 b", "\x7f"}) {
    EXPECT_FALSE(check_api_key(key)) << key;
  }
  for (const char* key : {"abc", "two words", "\xc3\xbc", "\"'$"}) EXPECT_TRUE(check_api_key(key));
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
