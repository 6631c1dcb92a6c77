// Nothing: what is compiled is the header list that every test reuses (CMakeLists.txt).
