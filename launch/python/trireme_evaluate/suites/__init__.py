"""Suites: each has TASKS, items(request) and describe(request)."""

from . import longbench, mtbench, needle, pg19, ruler, xsum

SUITES = {"needle": needle, "ruler": ruler, "longbench": longbench, "xsum": xsum, "mtbench": mtbench, "pg19": pg19}
