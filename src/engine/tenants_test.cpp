#include "engine/tenants.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace millrace {
namespace {

TEST(Tenants, AreKnownByName) {
  Tenants tenants;
  EXPECT_EQ(tenants.id_of(""), TenantId{});
  const TenantId a = tenants.id_of("a");
  const TenantId b = tenants.id_of("b");
  EXPECT_NE(a, b);
  EXPECT_NE(a, TenantId{});
  EXPECT_EQ(tenants.id_of("a"), a);
}

TEST(Tenants, ShareOneIdBeyondTheirBound) {
  Tenants tenants;
  std::set<TenantId> ids;
  for (size_t i = 0; i < 3 * Tenants::kNumNamesMax; ++i) {
    ids.insert(tenants.id_of("name " + std::to_string(i)));
  }
  EXPECT_EQ(ids.size(), Tenants::kNumNamesMax + 1);
  EXPECT_EQ(tenants.id_of("one more"), *ids.rbegin());
  EXPECT_EQ(tenants.id_of("name 0"), *ids.begin());
}

TEST(Tenants, ShareEquallyAmongThoseWhoHaveAny) {
  Tenants tenants;
  const TenantId a = tenants.id_of("a");
  const TenantId b = tenants.id_of("b");
  EXPECT_FALSE(tenants.holds_more_than_its_share(a)) << "it has nothing";
  tenants.add(a, 100);
  EXPECT_FALSE(tenants.holds_more_than_its_share(a)) << "it is alone";
  tenants.add(b, 100);
  EXPECT_FALSE(tenants.holds_more_than_its_share(a));
  tenants.remove(b, 1);
  EXPECT_TRUE(tenants.holds_more_than_its_share(a));
  EXPECT_FALSE(tenants.holds_more_than_its_share(b));
  tenants.remove(b, 99);
  EXPECT_FALSE(tenants.holds_more_than_its_share(a)) << "it is alone again";
  tenants.remove(a, 100);
  EXPECT_FALSE(tenants.holds_more_than_its_share(a));
}

}  // namespace
}  // namespace millrace
