#include "reprise/error_text.h"

#include "reprise/training/flags/option_names.h"

#include <reprise/dist/error_text.h>
#include <reprise/reward/url.h>

#include <iostream>
#include <sstream>

namespace reprise::app {

std::string shown_error(const std::exception& error) {
  return without_passwords(with_flag_names(error_text(error)));
}

int print_parse_error(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream errors;
  const int code = app.exit(error, std::cout, errors);
  std::cerr << without_passwords(errors.str());
  return code;
}

}  // namespace reprise::app
