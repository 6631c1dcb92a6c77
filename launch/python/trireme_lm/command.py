"""Command `trireme` of the wheel: starts the program of the wheel's tree."""

import os
import sys

from .process import find_program


def main():
    program = find_program()
    os.execv(program, [program, *sys.argv[1:]])
