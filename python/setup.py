"""Takes libpvi.so along: the one that PVI_LIBRARY names, or that `make` built beside this folder. Everything else is in pyproject.toml."""
import os
import shutil

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
PLACES = [os.environ.get("PVI_LIBRARY"), os.path.join(HERE, "pvi", "libpvi.so"), os.path.join(HERE, "..", "build", "libpvi.so")]
LIBRARY = next((place for place in PLACES if place and os.path.isfile(place)), None)


class WithLibrary(build_py):
    def run(self):
        super().run()
        if LIBRARY:
            shutil.copyfile(LIBRARY, os.path.join(self.build_lib, "pvi", "libpvi.so"))
        else:
            self.warn("libpvi.so is not built: run make first, or install it (make install), or name it in PVI_LIBRARY")


class OfThisMachine(Distribution):
    def has_ext_modules(self):
        return LIBRARY is not None


setup(cmdclass={"build_py": WithLibrary}, distclass=OfThisMachine)
