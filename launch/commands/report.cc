#include <string>
#include <utility>
#include <vector>

#include "launch/commands/commands.h"
#include "launch/record/record_file.h"
#include "launch/run/python_script.h"

namespace trireme {

void run_report(const Options& o) {
    // h5py trusts its input, so the digests of each file are verified first. An evaluation's results.csv is text.
    for (const std::string& file : o.records) {
        if (!file.ends_with(".csv")) open_record(file);
    }
    std::vector<std::string> words = python_command("report/report.py");
    words.insert(words.end(), {"-o", o.output_path, "--"});
    words.insert(words.end(), o.records.begin(), o.records.end());
    become_script(std::move(words), "trireme report");
}

}  // namespace trireme
