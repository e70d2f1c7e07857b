# Not tried: no Spack was at hand. The names of the packages and of their variants are those of Spack's own packages of July 2026.
#
# Type, in the folder of the source archive:
#   spack repo add CHECKOUT/packaging/spack/spack_repo/hvdrun
#   spack install --no-checksum hvdrun
import os

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Hvdrun(CMakePackage):
    """Launcher and runtime for distributed training: hvdrun, libhvd and the Python package hvd."""

    homepage = "https://hvdrun.invalid/"
    url = f"file://{os.getcwd()}/hvdrun-0.1.0.tar.gz"
    manual_download = True

    license("Apache-2.0")

    # The checksum is in the release's SHA256SUMS.
    version("0.1.0")

    variant("launcher", default=True, description="Build hvdrun, and not only libhvd and the package hvd")
    variant("mpi", default=False, description="Build the plugin that sends data between hosts over Open MPI")
    variant("python", default=True, description="Make the package hvd importable")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    # Opened at run time: the headers are needed, and a library that the loader finds.
    depends_on("pmix@4:")
    depends_on("openssl@3:")
    depends_on("openmpi@4:", when="+mpi")
    depends_on("python@3.9:", type="run", when="+python")
    with when("+launcher"):
        depends_on("libssh")
        depends_on("libevent")
        depends_on("hwloc@2:")
        depends_on("fmt@9:", type="build")
        depends_on("nlohmann-json", type="build")

    # C++20 with ranges, span and bit_cast.
    conflicts("%gcc@:11")
    conflicts("%clang@:15")
    conflicts("platform=darwin")
    conflicts("platform=windows")

    def cmake_args(self):
        args = [
            self.define("HVD_BUILD_TESTS", False),
            self.define("HVD_BUILD_BENCH", False),
            self.define("HVD_BUILD_EXAMPLES", False),
            self.define_from_variant("HVD_BUILD_LAUNCHER", "launcher"),
        ]
        if self.spec.satisfies("+launcher"):
            # A static hwloc of Spack's needs libpciaccess and libxml2, which hvdrun does not link.
            args.append(self.define("HVD_STATIC_HWLOC", False))
            args.append(self.define("HVD_STATIC_LIBEVENT", False))
        return args

    def setup_run_environment(self, env):
        if self.spec.satisfies("+python"):
            env.prepend_path("PYTHONPATH", self.prefix.share.hvd.python)
        # What is opened at run time by its name.
        for name in ("pmix", "openssl", "libssh"):
            if name in self.spec:
                for folder in self.spec[name].libs.directories:
                    env.append_path("LD_LIBRARY_PATH", folder)
