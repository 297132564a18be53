#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "report/html/tables.h"
#include "report/html/text.h"

namespace millrace::bench {
namespace {

// What each row says of one thing; empty: nothing.
struct Fact {
  std::string name;
  std::vector<std::string> values;  // [rows]

  bool is_same() const {
    return std::all_of(values.begin(), values.end(), [&](const std::string& value) {
      return value == values.front();
    });
  }
  bool is_empty() const {
    return std::all_of(values.begin(), values.end(), [](const std::string& value) {
      return value.empty();
    });
  }
};

template <class Say>
void add_fact(
    std::vector<Fact>& facts, const PageRows& page, const std::string& name, const Say& say
) {
  Fact fact = {.name = name};
  for (const PageRow& row : page.rows) fact.values.push_back(say(*row.summary));
  if (!fact.values.empty() && !fact.is_empty()) facts.push_back(std::move(fact));
}

std::string goals_text(const Goals& goals) {
  std::string text;
  const auto add = [&](std::string_view name, const std::optional<double>& goal) {
    if (goal) text += fmt::format("{}{} ≤ {} ms", text.empty() ? "" : ", ", name, *goal);
  };
  add("TTFT", goals.ttft_ms);
  add("TPOT", goals.tpot_ms);
  add("ITL", goals.itl_ms);
  add("E2E", goals.e2e_ms);
  return text;
}

std::string lengths_text(const DatasetPlan& dataset) {
  if (dataset.range_ratio_mode.empty()) return {};
  return fmt::format("range ratio {} as {}'s", dataset.range_ratio, dataset.range_ratio_mode);
}

std::string value_of(
    const std::vector<std::pair<std::string, std::string>>& pairs, const std::string& key
) {
  for (const auto& [name, value] : pairs) {
    if (name == key) return value;
  }
  return {};
}

// The keys of all rows' pairs, in the order in which they come first.
template <class Pairs>
std::vector<std::string> keys_of(const PageRows& page, const Pairs& pairs) {
  std::vector<std::string> keys;
  for (const PageRow& row : page.rows) {
    for (const auto& [key, value] : pairs(row)) {
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  return keys;
}

std::vector<Fact> setup_facts(const PageRows& page) {
  std::vector<Fact> facts;
  const auto add = [&](const std::string& name, const auto& say) {
    add_fact(facts, page, name, say);
  };
  const auto add_plan = [&](const std::string& name, std::string PointPlan::*member) {
    add(name, [member](const PointSummary& row) { return row.plan.*member; });
  };
  add_plan("Framework", &PointPlan::framework);
  add_plan("Version", &PointPlan::version);
  add_plan("Device", &PointPlan::device);
  add_plan("Model", &PointPlan::model);
  add_plan("Tokenizer", &PointPlan::tokenizer);
  add_plan("Server", &PointPlan::base_url);
  add_plan("Endpoint", &PointPlan::endpoint);
  add_plan("Backend", &PointPlan::backend);
  add("Workload", [](const PointSummary& row) { return workload_text(row.plan.dataset); });
  add("Lengths", [](const PointSummary& row) { return lengths_text(row.plan.dataset); });
  add("Load", [](const PointSummary& row) { return load_text(row.plan.load); });
  add("Requests", [](const PointSummary& row) {
    return row.plan.num_prompts > 0 ? std::to_string(row.plan.num_prompts) : std::string();
  });
  add("Warm-up requests", [](const PointSummary& row) {
    return row.plan.num_warmups > 0 ? std::to_string(row.plan.num_warmups) : std::string();
  });
  add("Seed", [](const PointSummary& row) { return std::to_string(row.plan.dataset.seed); });
  add("Ignores EOS", [](const PointSummary& row) {
    return std::string(row.plan.dataset.ignores_eos ? "yes" : "no");
  });
  add("Goals", [](const PointSummary& row) { return goals_text(row.plan.goals); });
  add_plan("Label", &PointPlan::label);
  add_plan("Tag", &PointPlan::tag);
  const auto metadata = [](const PageRow& row) -> const auto& {
    return row.summary->plan.metadata;
  };
  for (const std::string& key : keys_of(page, metadata)) {
    add(key, [&](const PointSummary& row) { return value_of(row.plan.metadata, key); });
  }
  return facts;
}

std::string shared_facts_html(const std::vector<Fact>& facts) {
  std::string html;
  for (const Fact& fact : facts) {
    if (!fact.is_same()) continue;
    html += fmt::format(
        "<div><dt>{}</dt><dd>{}</dd></div>\n",
        html_escaped(fact.name),
        html_escaped(fact.values.front())
    );
  }
  return html.empty() ? html : "<dl class=\"facts\">\n" + html + "</dl>\n";
}

std::string differing_facts_html(const PageRows& page, const std::vector<Fact>& facts) {
  std::string head, body;
  for (const Fact& fact : facts) {
    if (fact.is_same()) continue;
    head += fmt::format("<th scope=\"col\" class=\"text\">{}</th>", html_escaped(fact.name));
  }
  if (head.empty()) return {};
  for (size_t row = 0; row < page.rows.size(); ++row) {
    body += "<tr><td class=\"text\">" + html_escaped(page.rows[row].name) + "</td>";
    for (const Fact& fact : facts) {
      if (fact.is_same()) continue;
      body += "<td class=\"text\">" + html_escaped(fact.values[row]) + "</td>";
    }
    body += "</tr>\n";
  }
  return "<details><summary>What differs from row to row</summary>\n<div class=\"scroll\"><table "
         "class=\"sortable\">\n<caption class=\"unseen\">What differs from row to row</caption>\n"
         "<thead><tr><th scope=\"col\" class=\"text\">Row</th>" +
         head + "</tr></thead>\n<tbody>\n" + body + "</tbody></table></div></details>\n";
}

}  // namespace

std::string setup_tables(const PageRows& page) {
  const std::vector<Fact> facts = setup_facts(page);
  return shared_facts_html(facts) + differing_facts_html(page, facts);
}

std::string environment_table(const PageRows& page) {
  const std::vector<std::pair<std::string, std::string>> none;
  const auto environment = [&](const PageRow& row) -> const auto& {
    return row.record == nullptr ? none : row.record->environment;
  };
  std::string html;
  for (const std::string& key : keys_of(page, environment)) {
    if (key == "command") continue;
    std::vector<std::string> distinct;
    for (const PageRow& row : page.rows) {
      const std::string value = value_of(environment(row), key);
      if (!value.empty() && std::find(distinct.begin(), distinct.end(), value) == distinct.end()) {
        distinct.push_back(value);
      }
    }
    html += fmt::format("<div><dt>{}</dt><dd>", html_escaped(key));
    for (size_t i = 0; i < distinct.size(); ++i) {
      html += (i > 0 ? "<br>" : "") + html_escaped(distinct[i]);
    }
    html += "</dd></div>\n";
  }
  return html.empty() ? html : "<dl class=\"facts\">\n" + html + "</dl>\n";
}

}  // namespace millrace::bench
