#%Module1.0
# Module file for Environment Modules. Copy it into a folder of MODULEPATH as hvdrun/VERSION. One file is for all versions: its name
# says which. Change this line if hvdrun is elsewhere. BASE/VERSION is what `cmake --install` or `pip install --target` made.
set base /opt/hvdrun

set version [file tail [module-info name]]
set root $base/$version
set prefix $root
set python $root/share/hvd/python
if {![file isdirectory $python]} { # of pip
    set prefix $root/hvd
    set python $root
}
if {[module-info mode load] && ![file isdirectory $python/hvd]} {
    puts stderr "hvdrun $version is not in $root: install it there, or change `base` in $ModulesCurrentModulefile"
    break
}

proc ModulesHelp {} {
    puts stderr "hvdrun starts a distributed training program: one process per GPU. Type: man hvdrun"
}
module-whatis "launcher and runtime for distributed training, version $version"

conflict hvdrun
prepend-path PATH $root/bin
prepend-path PYTHONPATH $python
prepend-path CMAKE_PREFIX_PATH $prefix
foreach name {lib lib64} {
    if {[file exists $prefix/$name/libhvd.so.0]} {
        prepend-path LD_LIBRARY_PATH $prefix/$name
        prepend-path PKG_CONFIG_PATH $prefix/$name/pkgconfig
    }
}
