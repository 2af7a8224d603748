#!/usr/bin/env bash
# deb.sh BUILD VERSION: BUILD/pvi_VERSION_ARCH.deb: the program, the library, its header, the manual page, completions and the pages of doc/.
# Then it is unpacked into an empty folder, and what is in there has to run.
set -euo pipefail
build=$1 version=$2
arch=$(dpkg --print-architecture)
root=$(mktemp -d) trial=$(mktemp -d)
trap 'rm -rf "$root" "$trial"' EXIT
chmod 755 "$root"
make -s install BUILD="$build" DESTDIR="$root" PREFIX=/usr LIBDIR="lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)" >/dev/null
strip --strip-unneeded "$root/usr/bin/pvi" "$root"/usr/lib/*/libpvi.so.*.*
strip --strip-debug "$root"/usr/lib/*/libpvi.a
share=$root/usr/share/doc/pvi
install -d "$share/figures" "$root/DEBIAN"
install -m644 doc/*.md "$share"
install -m644 doc/figures/* "$share/figures"
install -m644 LICENSE "$share/copyright"
gzip -9n "$root/usr/share/man/man1/pvi.1"
needs=$(find "$root/usr" -type f -perm -u+x -exec objdump -p {} + 2>/dev/null | sed -n 's/.*GLIBC_\([0-9.]*\).*/\1/p' | sort -V | tail -n 1)
cat >"$root/DEBIAN/control" <<C
Package: pvi
Version: $version
Architecture: $arch
Maintainer: the pvi developers <pvi@localhost>
Depends: libc6 (>= $needs)
Section: math
Priority: optional
Installed-Size: $(du -ks "$root/usr" | cut -f1)
Description: predictive variational inference for Stan programs
 Finds the distribution of the parameters of a Stan program whose predictions
 are best under a proper scoring rule, next to ordinary variational inference
 and sampling of the posterior, and says what varies in the population.
C
printf '#!/bin/sh\nset -e\nldconfig\n' >"$root/DEBIAN/postinst"
cp "$root/DEBIAN/postinst" "$root/DEBIAN/postrm"
chmod 755 "$root/DEBIAN/postinst" "$root/DEBIAN/postrm"
(cd "$root" && find usr -type f -exec md5sum {} + >DEBIAN/md5sums)
out=$build/pvi_${version}_$arch.deb
dpkg-deb --root-owner-group --build "$root" "$out" >/dev/null
dpkg-deb --extract "$out" "$trial"
[ "$("$trial/usr/bin/pvi" --version)" = "$("$build/pvi" --version)" ]
"$trial/usr/bin/pvi" fit examples/golf/geometric.stan examples/golf/golf.csv --lambda 0.1 --out "$trial/run" --quiet
test -s "$trial/run/summary.json"
echo "$out"
