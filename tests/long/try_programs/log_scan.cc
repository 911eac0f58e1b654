// SPDX-License-Identifier: Apache-2.0
// Scans one long line of a log for a pattern, as a parser of logs would. libstdc++'s std::regex calls itself once for
// each character: a line of 200,000 needs more stack than the 8 MiB that a process has by default.
#include <iostream>
#include <regex>
#include <string>

int main()
{
    std::string line(200000, 'x');
    line += "ERROR 17";
    std::cout << "scanning " << line.size() << " characters" << std::endl;
    const bool found = std::regex_match(line, std::regex("(x|y)*ERROR ([0-9]+)"));
    std::cout << (found ? "found" : "not found") << std::endl;
    return found ? 0 : 1;
}
