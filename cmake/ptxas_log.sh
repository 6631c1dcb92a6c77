#!/usr/bin/env bash
# Compiles with nvcc; what ptxas says of registers and spills goes to OBJECT.ptxas, everything else to stderr.
#   ptxas_log.sh NVCC ARGUMENTS...     (a CUDA_COMPILER_LAUNCHER)
object='' status=0
for (( i = 1; i < $#; ++i )); do
    if [[ ${!i} == -o ]]; then next=$((i + 1)); object=${!next}; fi
done
said=$("$@" 2>&1) || status=$?
pattern='^ptxas info |^ +[0-9]+ bytes (stack frame|gmem)'
grep -vE "$pattern" <<<"$said" | sed '/^$/d' >&2
if (( status == 0 )) && [[ $object ]]; then grep -E "$pattern" <<<"$said" >"$object.ptxas"; fi
exit "$status"
