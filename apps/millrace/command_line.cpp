#include "command_line.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <type_traits>

#include "base/json.h"
#include "terminal.h"

namespace millrace {
namespace {

std::string with_dashes(std::string name) {
  std::ranges::replace(name, '_', '-');
  return name;
}

// "--max_tokens=5" -> "--max-tokens=5"; the value stays as it is.
std::string normalize_flag(const std::string& argument) {
  if (!argument.starts_with("--")) return argument;
  const size_t end_of_name = std::min(argument.find('='), argument.size());
  return with_dashes(argument.substr(0, end_of_name)) + argument.substr(end_of_name);
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

// Reads `--config`: a YAML mapping of flag names to a value or a list of values.
class YamlConfig : public CLI::Config {
 public:
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override {
    const std::vector<YAML::Node> documents = YAML::LoadAll(input);
    if (documents.size() > 1) throw CLI::ConfigError("the file must be one YAML document");
    std::vector<CLI::ConfigItem> flags;
    if (documents.empty() || documents[0].IsNull()) return flags;
    if (!documents[0].IsMap()) {
      throw CLI::ConfigError("the file must be a mapping of flags to values");
    }
    for (const auto& entry : documents[0]) {
      flags.push_back(item_of(entry.first, entry.second));
      for (size_t i = 0; i + 1 < flags.size(); ++i) {
        if (flags[i].name != flags.back().name) continue;
        throw CLI::ConfigError(fmt::format("'{}' stands twice", flags[i].name));
      }
    }
    return flags;
  }

 private:
  // A list of texts is a flag given several times; numbers are one value, in JSON.
  static CLI::ConfigItem item_of(const YAML::Node& key, const YAML::Node& value) {
    CLI::ConfigItem item;
    item.name = with_dashes(key.as<std::string>());
    if (value.IsScalar()) {
      item.inputs.push_back(value.as<std::string>());
    } else if (value.IsMap()) {
      item.inputs.push_back(json_object(item.name, value));
    } else if (value.IsSequence() && is_numeric(value)) {
      item.inputs.push_back("[" + joined(texts(item.name, value)) + "]");
    } else if (value.IsSequence()) {
      item.inputs = texts(item.name, value);
    } else {
      throw CLI::ConfigError(fmt::format("'{}' has no value", item.name));
    }
    return item;
  }

  static bool is_numeric(const YAML::Node& sequence) {
    double number = 0.0;
    return std::ranges::all_of(sequence, [&](const YAML::Node& element) {
      return element.Tag() != "!" && YAML::convert<double>::decode(element, number);
    });
  }

  static std::vector<std::string> texts(const std::string& name, const YAML::Node& sequence) {
    std::vector<std::string> list;
    for (const YAML::Node& element : sequence) {
      if (!element.IsScalar()) {
        throw CLI::ConfigError(fmt::format("'{}' must be a list of plain values", name));
      }
      list.push_back(element.as<std::string>());
    }
    return list;
  }

  // {5: -100} as the JSON text {"5": -100}.
  static std::string json_object(const std::string& name, const YAML::Node& map) {
    std::vector<std::string> members;
    for (const auto& entry : map) {
      if (!entry.first.IsScalar() || !entry.second.IsScalar()) {
        throw CLI::ConfigError(fmt::format("'{}' must map plain values to plain values", name));
      }
      // Numbers and booleans stand as they are; everything else is text.
      const std::string text = entry.second.as<std::string>();
      const bool is_json = entry.second.Tag() != "!" && parse_json(text).ok();
      members.push_back(fmt::format(
          "{}: {}",
          to_json_text(json::value(entry.first.as<std::string>())),
          is_json ? text : to_json_text(json::value(text))
      ));
    }
    return "{" + joined(members) + "}";
  }
};

// CLI11 reads the file before it looks at the environment.
void add_config_of_environment(std::vector<std::string>& arguments) {
  const char* path = std::getenv("MILLRACE_CONFIG");
  const bool is_given = std::ranges::any_of(arguments, [](const std::string& argument) {
    return argument == "--config" || argument.starts_with("--config=");
  });
  if (path == nullptr || *path == '\0' || is_given) return;
  arguments.push_back("--config");
  arguments.emplace_back(path);
}

// Levenshtein's distance: the fewest insertions, deletions and replacements from `a` to `b`.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

// Its environment variable: MILLRACE_ and its first name.
CLI::Option* with_environment(CLI::Option* option) {
  std::string name = "MILLRACE_" + option->get_lnames().front();
  std::ranges::transform(name, name.begin(), [](unsigned char c) {
    return c == '-' ? '_' : static_cast<char>(std::toupper(c));
  });
  return option->envname(name);
}

std::string refuse_sign(const std::string& text) {
  return text.starts_with('-') ? fmt::format("'{}': expected a number of at least 0", text) : "";
}

// A flag whose values go to `take` one by one.
CLI::Option* add_texts(
    CLI::App& app,
    const std::string& names,
    std::function<Result<void>(const std::string&)> take,
    const std::string& help
) {
  const std::string flag = names.substr(0, names.find(','));
  const CLI::callback_t take_all = [take = std::move(take), flag](const CLI::results_t& texts) {
    for (const std::string& text : texts) {
      const Result<void> taken = take(text);
      if (!taken) throw CLI::ValidationError(flag, taken.error().message);
    }
    return true;
  };
  // Without extra arguments a value is one argument, and one that begins with '[' is left alone.
  return with_environment(app.add_option(names, take_all, help))
      ->expected(1)
      ->allow_extra_args(false);
}

}  // namespace

bool Flag::is_named(const std::string& name) const {
  return option_->check_name(name);
}

Flag Flag::required() {
  return Flag(option_->required());
}

Flag Flag::needs(Flag other) {
  return Flag(option_->needs(other.option_));
}

Flag Flag::excludes(Flag other) {
  return Flag(option_->excludes(other.option_));
}

Flag Flag::set_type_name(const std::string& name) {
  return Flag(option_->type_name(name));
}

Flag Flag::set_environment(const std::string& name) {
  return Flag(option_->envname(name));
}

CommandLine::CommandLine(std::string name, std::string description)
    : app_(std::make_unique<CLI::App>(std::move(description), "millrace " + name)) {
  app_->get_formatter()->column_width(36);
  app_->config_formatter(std::make_shared<YamlConfig>());
  app_->set_config("--config", "", "YAML file of flags: max-tokens: 32")
      ->envname("MILLRACE_CONFIG")
      ->type_name("FILE");
  app_->allow_config_extras(CLI::config_extras_mode::error);
}

CommandLine::~CommandLine() = default;

template <class T>
Flag CommandLine::add(const std::string& names, T& variable, const std::string& help) {
  CLI::Option* option = app_->add_option(names, variable, help);
  if constexpr (std::is_unsigned_v<T>)
    option->check(refuse_sign);  // CLI11 2.1 takes -1 for 2^64 - 1
  return Flag(with_environment(option));
}

template Flag CommandLine::add(const std::string&, int&, const std::string&);
template Flag CommandLine::add(const std::string&, int64_t&, const std::string&);
template Flag CommandLine::add(const std::string&, size_t&, const std::string&);
template Flag CommandLine::add(const std::string&, double&, const std::string&);
template Flag CommandLine::add(const std::string&, std::optional<int>&, const std::string&);
template Flag CommandLine::add(const std::string&, std::optional<int64_t>&, const std::string&);
template Flag CommandLine::add(const std::string&, std::optional<double>&, const std::string&);
template Flag CommandLine::add(const std::string&, std::string&, const std::string&);
template Flag CommandLine::add(const std::string&, std::vector<std::string>&, const std::string&);

Flag CommandLine::add_flag(const std::string& names, bool& variable, const std::string& help) {
  return Flag(with_environment(app_->add_flag(names, variable, help)));
}

Flag CommandLine::add_switch(
    const std::string& names, std::function<void()> take, const std::string& help
) {
  const auto take_count = [take = std::move(take)](int64_t count) {
    if (count > 0) take();
  };
  return Flag(with_environment(app_->add_flag_function(names, take_count, help)));
}

Flag CommandLine::add_size(
    const std::string& names, std::optional<int64_t>& variable, const std::string& help
) {
  const auto take = [&variable](const std::string& text) -> Result<void> {
    const Result<int64_t> size = parse_size(text);
    if (!size) return size.error();
    variable = *size;
    return {};
  };
  return add_value(names, take, help).set_type_name("SIZE");
}

Flag CommandLine::add_value(
    const std::string& names,
    std::function<Result<void>(const std::string&)> take,
    const std::string& help
) {
  return Flag(add_texts(*app_, names, std::move(take), help));
}

Flag CommandLine::add_callback(
    const std::string& names,
    std::function<Result<void>(const std::string&)> take,
    const std::string& help
) {
  return Flag(add_texts(*app_, names, std::move(take), help)
                  ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll));
}

Flag CommandLine::add_positional(
    const std::string& name, std::string& variable, const std::string& help
) {
  return Flag(app_->add_option(name, variable, help));
}

std::vector<Flag> CommandLine::flags() {
  std::vector<Flag> flags;
  for (CLI::Option* option : app_->get_options()) {
    const bool is_flag = option->nonpositional() && option != app_->get_help_ptr() &&
                         option != app_->get_config_ptr();
    if (is_flag) flags.emplace_back(option);
  }
  return flags;
}

void CommandLine::set_footer(const std::string& text) {
  app_->footer(text);
}

std::optional<int> CommandLine::parse(std::vector<std::string> arguments) {
  std::ranges::transform(arguments, arguments.begin(), normalize_flag);
  add_config_of_environment(arguments);
  std::ranges::reverse(arguments);  // CLI11 takes them from the back
  std::string message;
  try {
    app_->parse(arguments);
    return std::nullopt;
  } catch (const CLI::Success& success) {
    return app_->exit(success);
  } catch (const CLI::ExtrasError&) {
    message = unknown_flag_message(app_->remaining().front());
  } catch (const CLI::ConfigError& error) {
    message = config_message(error.what());
  } catch (const CLI::ParseError& error) {
    message = error.what();
  } catch (const YAML::Exception& error) {
    message = fmt::format("--config: {}", error.what());
  } catch (const std::exception&) {  // CLI11 2.1 lets out what std::stoll throws
    message = "a switch is true or false, in the environment and in --config";
  }
  std::ranges::replace(message, '\n', ' ');
  print_stderr("{}: {}\n", app_->get_name(), message);
  return 2;
}

std::string CommandLine::config_message(const std::string& message) const {
  constexpr std::string_view kUnknown = "INI was not able to parse ";  // and then the key
  if (!message.starts_with(kUnknown)) return "--config: " + message;
  return "--config: " + unknown_flag_message("--" + message.substr(kUnknown.size()));
}

std::string CommandLine::unknown_flag_message(const std::string& argument) const {
  if (!argument.starts_with("-")) return fmt::format("'{}' is one argument too many", argument);
  std::vector<std::string> flags;
  for (const CLI::Option* option : app_->get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  const std::string flag = argument.substr(0, argument.find('='));
  const std::optional<std::string> meant = nearest_match(flag, flags);
  return meant ? fmt::format("there is no flag '{}'; did you mean '{}'?", flag, *meant)
               : fmt::format("there is no flag '{}'; --help lists them", flag);
}

Result<int64_t> parse_size(const std::string& text) {
  const Error error = invalid_argument(
      fmt::format("'{}' is not a size: expected a number such as 4096, 32k, 32K or 2.5G", text)
  );
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [rest, ec] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (ec != std::errc() || text.starts_with('-') || end - rest > 1) return error;
  if (rest != end) {
    constexpr std::string_view kThousands = "kmgt";
    constexpr std::string_view kPowersOfTwo = "KMGT";
    const size_t thousands = kThousands.find(*rest);
    const size_t powers = kPowersOfTwo.find(*rest);
    if (thousands != std::string_view::npos) {
      value *= std::pow(1000.0, static_cast<double>(thousands + 1));
    } else if (powers != std::string_view::npos) {
      value *= std::pow(1024.0, static_cast<double>(powers + 1));
    } else {
      return error;
    }
  }
  if (!(value < 0x1.0p62) || value != std::floor(value)) return error;
  return static_cast<int64_t>(value);
}

std::optional<std::string> nearest_match(
    const std::string& name, const std::vector<std::string>& candidates
) {
  std::optional<std::string> nearest;
  size_t nearest_distance = name.size() / 3 + 1;  // further away is a guess, not a help
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance <= nearest_distance && (!nearest || distance < nearest_distance)) {
      nearest = candidate;
      nearest_distance = distance;
    }
  }
  return nearest;
}

}  // namespace millrace
