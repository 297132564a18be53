#include "results/verdict.h"

#include <algorithm>

namespace millrace::bench {

Trust Verdict::trust() const {
  Trust worst = Trust::kOk;
  for (const Finding& finding : findings) worst = std::max(worst, finding.trust);
  return worst;
}

std::string_view to_string(Trust trust) {
  switch (trust) {
    case Trust::kOk:
      return "ok";
    case Trust::kWarn:
      return "warn";
    case Trust::kInvalid:
      return "invalid";
  }
  return "invalid";
}

}  // namespace millrace::bench
