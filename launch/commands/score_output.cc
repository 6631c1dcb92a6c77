#include "launch/commands/score_output.h"

#include <span>
#include <unistd.h>

#include "launch/report/output.h"
#include "runtime/atomic_file.h"

namespace trireme {

void probe_score_outputs(const Options& o) {
    probe_outputs(o);
    if (o.output_path != "-") probe_output("--output-path", o.output_path, o.force);
}

void write_score(const Options& o, const std::string& summary, const std::string& details) {
    TextOut(STDOUT_FILENO).write(o.output_path == "-" ? details : summary);
    if (o.output_path.empty() || o.output_path == "-") return;
    write_file_atomically(o.output_path, std::as_bytes(std::span(details)), o.old_outputs());
}

}  // namespace trireme
