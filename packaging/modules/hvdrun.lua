-- Module file for Lmod. Copy it into a folder of MODULEPATH as hvdrun/VERSION.lua. One file is for all versions: its name says which.
-- Change this line if hvdrun is elsewhere. BASE/VERSION is what `cmake --install` or `pip install --target` made.
local base = "/opt/hvdrun"

local root = pathJoin(base, myModuleVersion())
local prefix, python = root, pathJoin(root, "share/hvd/python")
if not isDir(python) then -- of pip
  prefix, python = pathJoin(root, "hvd"), root
end
if mode() == "load" and not isDir(pathJoin(python, "hvd")) then
  LmodError("hvdrun " .. myModuleVersion() .. " is not in " .. root .. ": install it there, or change `base` in " .. myFileName())
end

help("hvdrun starts a distributed training program: one process per GPU. Type: man hvdrun")
whatis("Name: hvdrun")
whatis("Version: " .. myModuleVersion())
whatis("Description: launcher and runtime for distributed training")

prepend_path("PATH", pathJoin(root, "bin"))
prepend_path("PYTHONPATH", python)
prepend_path("CMAKE_PREFIX_PATH", prefix)
for _, name in ipairs({ "lib", "lib64" }) do
  if isFile(pathJoin(prefix, name, "libhvd.so.0")) then
    prepend_path("LD_LIBRARY_PATH", pathJoin(prefix, name))
    prepend_path("PKG_CONFIG_PATH", pathJoin(prefix, name, "pkgconfig"))
  end
end
