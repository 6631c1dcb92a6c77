#!/usr/bin/env bash
# Makes a tree that runs without installed packages: program, CUDA module if it was built, tests and benchmarks for a GPU,
# Open MPI, and all libraries except those of glibc, the driver and CUDA. Debian 12 or a newer Linux (glibc 2.36), x86-64.
#   launch/bundle.sh FOLDER [--cuda-libs] [--no-tests]
#     --cuda-libs  copies cuBLASLt and NCCL into the tree as well (800 MB); otherwise they are searched for at run time
#     --no-tests   leaves out tests and benchmarks: the tree of launch/package.sh's tarball
# FOLDER/run starts it: `run generate ...`, `run -n 2 generate ...`. The tree may be moved.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

out='' cuda_libs='' tests=1
for arg in "$@"; do
    case $arg in
        --cuda-libs) cuda_libs=1 ;;
        --no-tests) tests='' ;;
        -*) echo "bundle: unknown argument '$arg'; want FOLDER and perhaps --cuda-libs, --no-tests" >&2; exit 64 ;;
        *) out=$arg ;;
    esac
done
if [[ ! $out ]]; then echo "bundle: no folder given: launch/bundle.sh FOLDER [--cuda-libs]" >&2; exit 64; fi
if [[ -e $out ]]; then echo "bundle: $out exists: remove it or name another folder" >&2; exit 73; fi
mkdir -p "$out"
out=$(cd "$out" && pwd)

cd "$root"
./launch/setup.sh --bundle
source launch/steps.sh
if [[ $tests ]]; then
    build release trireme_program bench_device bench_step kernels_cuda_test engine_cuda_test
else
    build_program
fi
logged install cmake --install build/release --prefix "$out" --strip

# The tests and benchmarks for a GPU. They read files of a checkout (tests/gpu.sh).
if [[ $tests ]]; then
    mkdir -p "$out/tests"
    for test in build/release/tests/kernels/kernels_cuda_test build/release/tests/model/llama/engine_cuda_test; do
        if [[ -x $test ]]; then install -s -m 755 "$test" "$out/tests/"; fi
    done
    install -s -m 755 build/release/tests/bench/bench_step build/release/tests/bench/bench_device "$out/bin/"
fi
git rev-parse HEAD >"$out/commit"

# licence_of <file>: copies the licence of the Debian package that contains the file.
licence_of() {
    local real package
    real=$(readlink -f "$1")
    package=$(dpkg-query -S "$real" "${real#/usr}" 2>/dev/null | sed -n '1s/[:,].*//p' || true)
    if [[ $package ]]; then install -D -m 644 -t "$out/share/doc/$package" "/usr/share/doc/$package/copyright"; fi
}

# Open MPI: its launcher, its plug-ins except those for cluster networks, its help texts.
plugins=/usr/lib/x86_64-linux-gnu/openmpi/lib/openmpi3
install -s -m 755 /usr/bin/orterun "$out/bin/mpirun"
install -s -m 755 /usr/bin/orted "$out/bin/orted"
mkdir -p "$out/lib/openmpi" "$out/share"
find "$plugins" -name '*.so' ! -name '*_ofi*' ! -name '*_ucx*' ! -name '*_psm*' ! -name '*_verbs*' ! -name '*_openib*' \
    ! -name '*_usnic*' ! -name '*sshmem*' ! -name '*_spml*' ! -name '*_scoll*' ! -name '*_memheap*' \
    -exec install -s -m 644 -t "$out/lib/openmpi" {} +
cp -rL /usr/share/openmpi "$out/share/openmpi"
pmix=$(find /usr/lib/x86_64-linux-gnu/pmix2 -type d -name pmix -print -quit)
mkdir -p "$out/lib/pmix"
find "$pmix" -name '*.so' -exec install -s -m 644 -t "$out/lib/pmix" {} +
licence_of /usr/bin/orterun

# All libraries that these need, directly or not, except those of glibc, the driver and CUDA.
own_to_system='^(ld-linux|libc|libm|libdl|libpthread|librt|libresolv|libutil|libnsl|libanl|libcuda|libcudart|libcublas|libcublasLt|libnccl|libnvidia)[.-]'
elves() { find "$out/bin" "$out/lib" ${tests:+"$out/tests"} -maxdepth 2 -type f \( -name '*.so*' -o -perm -u+x \) ! -name '*.sh'; }
while :; do
    added=''
    while read -r library; do
        name=$(basename "$library")
        if [[ $name =~ $own_to_system || -e $out/lib/$name ]]; then continue; fi
        install -s -m 644 "$(readlink -f "$library")" "$out/lib/$name"
        licence_of "$library"
        added=1
    done < <(elves | xargs -r ldd 2>/dev/null | sed -nE 's/^.*=> (\/[^ ]+) .*/\1/p' | grep -vF "$out/" | sort -u)
    if [[ ! $added ]]; then break; fi
done
if [[ $cuda_libs ]]; then
    for name in libcublasLt.so.13 libnccl.so.2; do
        library=$(ldconfig -p | sed -nE "s/^.*$name .*=> (.*)/\1/p" | head -n 1)
        if [[ ! $library ]]; then library=$(find -L /usr/local/cuda -name "$name" -print -quit 2>/dev/null || true); fi
        if [[ ! $library ]]; then echo "bundle: $name is nowhere: install CUDA 13, or leave --cuda-libs out" >&2; exit 66; fi
        install -m 644 "$(readlink -f "$library")" "$out/lib/trireme/$name"
    done
fi

# RUNPATH is not searched for the libraries of a library, so every file gets its own RPATH.
while read -r elf; do
    case $elf in
        "$out"/lib/openmpi/* | "$out"/lib/pmix/*) path='$ORIGIN/..' ;;
        "$out"/lib/trireme/*) path='$ORIGIN:$ORIGIN/..' ;;
        "$out"/lib/*) path='$ORIGIN' ;;
        *) path='$ORIGIN/../lib/trireme:$ORIGIN/../lib' ;;
    esac
    patchelf --force-rpath --set-rpath "$path" "$elf"
done < <(elves)

cat >"$out/run" <<'RUN'
#!/usr/bin/env bash
# Starts the program of this tree: run [-n RANKS] COMMAND ...
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export OPAL_PREFIX=$here PMIX_PREFIX=$here PMIX_INSTALL_PREFIX=$here
export OMPI_MCA_mca_base_component_path=$here/lib/openmpi PMIX_MCA_mca_base_component_path=$here/lib/pmix
export OMPI_MCA_mca_base_param_files=$here/share/openmpi/none OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp
export PMIX_MCA_pcompress_base_silence_warning=1
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
if ! command -v ssh >/dev/null; then export OMPI_MCA_plm=^rsh; fi
if [[ ${1:-} == -n ]]; then exec "$here/bin/mpirun" -n "$2" "$here/bin/${PROGRAM:-trireme}" "${@:3}"; fi
exec "$here/bin/${PROGRAM:-trireme}" "$@"
RUN
chmod 755 "$out/run"
echo "bundle: $out, $(du -sm --exclude='libcublasLt*' --exclude='libnccl*' "$out" | cut -f1) MiB without CUDA's libraries"
