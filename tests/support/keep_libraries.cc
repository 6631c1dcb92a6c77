// Open MPI unloads its plug-ins at the end of a process: LeakSanitizer could then no longer tell whose the leaks are,
// and the suppressions of lsan.supp would not match. Linked into MPI tests, with exported symbols.
extern "C" int dlclose(void*) {
    return 0;
}
