// Configs and batch scripts work from a clone, from an installed tree, and from any other folder.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launch/program.h"

namespace trireme::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kShipped = TRIREME_CONFIGS, kClone = kShipped.parent_path();

/// bin/trireme and share/trireme of an installed tree, without its libraries: the program is started where it is.
void install(const TempFolder& folder) {
    fs::create_directories(folder / "share/trireme");
    fs::copy(kShipped, folder / "share/trireme/configs", fs::copy_options::recursive);
    fs::copy(kClone / "launch/slurm", folder / "share/trireme/slurm", fs::copy_options::recursive);
    fs::create_directories(folder / "bin");
    fs::create_symlink(TRIREME_PROGRAM, folder / "bin/trireme");
}

ProcessResult in(const std::string& folder, const std::string& line) {
    return run_process({"bash", "-c", "cd '" + folder + "' && " + line});
}

TEST(ShippedConfigs, AreReadFromAnyFolder) {
    const TempFolder elsewhere, installed;
    install(installed);
    const std::string small =
        " -m '" + model() + "' -md '" + data("models/kjv-draft") +
        "' --prefill 600 -c 700 -n 2 -r 1 -t 1 -lv error --kv-on-chip auto --budget 64 --link-gbps 50 --modes none";
    size_t cells = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(kShipped)) {
        const std::string name = entry.path().stem().string();
        if (entry.path().extension() != ".ini" || !name.starts_with("laptop-")) continue;
        if (name.find("bench") == std::string::npos && name.find("triforce") == std::string::npos &&
            name.find("baseline") == std::string::npos)
            continue;
        for (const std::string& config :
             {entry.path().string(), name, name + ".ini", installed / ("share/trireme/configs/" + name + ".ini")}) {
            // The text and the draft that the file names are found relative to it.
            const ProcessResult r =
                in(elsewhere.path(), "'" TRIREME_PROGRAM "' bench --config '" + config + "' -tp 1" + small);
            EXPECT_EQ(r.status, 0) << config << r.err;
            ++cells;
        }
    }
    EXPECT_GE(cells, 20u);
    EXPECT_EQ(in(elsewhere.path(), "'" TRIREME_PROGRAM "' generate --config nosuch -m M -p P").status, 66);
    // A file in the current folder takes precedence over a shipped one.
    write_file(elsewhere / "timing.ini", "n-predict = 3\n");
    const ProcessResult own = in(elsewhere.path(), "'" TRIREME_PROGRAM "' generate --config timing.ini -m '" + model() +
                                                       "' -p And --temp 0 --print ids -t 1 --ignore-eos");
    EXPECT_EQ(std::count(own.out.begin(), own.out.end(), ','), 2) << own.err;
}

TEST(ShippedScripts, RunFromACloneAnInstalledTreeAndAnyFolder) {
    const TempFolder elsewhere, installed;
    install(installed);
    const std::string words =
        "generate -m '" + model() + "' -p 'And God said' -n 4 --temp 0 -t 1 --print ids -lv error";
    const std::string wanted = trireme_on(2, {"generate", "-m", model(), "-p", "And God said", "-n", "4", "--temp", "0",
                                              "-t", "1", "--print", "ids"})
                                   .out;
    // Slurm starts a copy of the script.
    const std::string slurm =
        "export SLURM_NTASKS=2 SLURM_JOB_ID=1 TRIREME_LAUNCHER=mpirun OMPI_ALLOW_RUN_AS_ROOT=1 "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 SLURM_SUBMIT_DIR=$PWD; cp '";
    for (const char* script : {"cpu", "two-nodes"}) {
        const std::string name = std::string(script) + ".sbatch";
        const std::string start =
            name + "' '" + (elsewhere / "copy") + "'; bash '" + (elsewhere / "copy") + "' " + words;
        const std::pair<std::string, std::string> places[] = {
            {kClone.string(),
             "export TRIREME='" TRIREME_PROGRAM "'; " + slurm + kClone.string() + "/launch/slurm/" + start},
            {elsewhere.path(), "export PATH='" + (installed / "bin") + "':$PATH; " + slurm +
                                   (installed / "share/trireme/slurm/") + start},
            {elsewhere.path(), "export TRIREME='" + (installed / "bin/trireme") + "'; " + slurm +
                                   (installed / "share/trireme/slurm/") + start}};
        for (const auto& [folder, line] : places) {
            const ProcessResult r = in(folder, line);
            EXPECT_EQ(r.status, 0) << line << r.err;
            EXPECT_EQ(r.out, wanted) << line;
        }
    }
    const std::string modes =
        "export SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_JOB_ID=7 TRIREME_SLURM_MODES='none;ngram' PATH='" +
        (installed / "bin") + "':$PATH; ";
    const ProcessResult r = in(elsewhere.path(), modes + slurm + (installed / "share/trireme/slurm/modes.sbatch") +
                                                     "' copy2; bash copy2 " + words);
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(read_file(elsewhere / "trireme-7_1.json"), HasSubstr("\"ngram"));
}

TEST(ShippedScripts, SrunWithoutPmixIsExplained) {
    const ProcessResult r = run_process(
        {"env", "SLURM_STEP_NUM_TASKS=2", "SLURM_PROCID=0", TRIREME_PROGRAM, "tokenize", "-m", model(), "-p", "x"});
    EXPECT_EQ(r.status, 64) << r.err;
    EXPECT_THAT(error_lines(r),
                testing::ElementsAre(testing::AllOf(HasSubstr("srun as 2 tasks "), HasSubstr("srun --mpi=pmix"))));
}

TEST(BenchCommand, ANumberAsTextIsExplained) {
    const ProcessResult r = trireme({"bench", "-m", model(), "-p", "512", "-n", "2", "-r", "1", "-t", "1"});
    EXPECT_EQ(r.status, 0) << r.err;
    EXPECT_THAT(r.err, HasSubstr("-p 512: "));
}

}  // namespace
}  // namespace trireme::test
