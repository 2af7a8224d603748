"""export_bytes.py: Zarr and netCDF as their specifications have them, read with Python's standard library. Called by test_export.sh; speaks TAP."""
import csv
import json
import math
import os
import struct
import sys

OUT = os.environ["OUT"]
failed = 0


def check(good, name, detail=""):
    global failed
    print(("ok - " if good else "not ok - ") + name)
    if not good:
        failed = 1
        print("# " + str(detail)[:1000])


def zarr(store, group, name):
    """Dimensions, shape and values of one array."""
    place = os.path.join(store, group, name)
    a, attributes = json.load(open(place + "/.zarray")), json.load(open(place + "/.zattrs"))
    assert a["zarr_format"] == 2 and a["compressor"] is None and a["order"] == "C" and a["chunks"] == a["shape"]
    data = open(place + "/" + ".".join("0" * len(a["shape"])), "rb").read()
    n = math.prod(a["shape"])
    values = struct.unpack("<%d%s" % (n, "q" if a["dtype"] == "<i8" else "d"), data)
    return attributes["_ARRAY_DIMENSIONS"], a["shape"], list(values)


def netcdf(path):
    """All arrays of a classic netCDF file: name -> dimensions, shape, values."""
    b = open(path, "rb").read()
    assert b[:4] == b"CDF\2"
    at = [8]

    def word(size=4):
        at[0] += size
        return int.from_bytes(b[at[0] - size : at[0]], "big")

    def name():
        n = word()
        s = b[at[0] : at[0] + n].decode()
        at[0] += (n + 3) // 4 * 4
        return s

    def items(tag):
        found, n = word(), word()
        assert found == (tag if n else 0)
        return range(n)

    dims = [(name(), word()) for _ in items(10)]
    for _ in items(12):
        name(), word(), name()
    out = {}
    for _ in items(11):
        key = name()
        mine = [dims[word()] for _ in range(word())]
        assert not list(items(12))
        kind, size, begin = word(), word(), word(8)
        n = math.prod(d[1] for d in mine)
        width, letter = (4, "i") if kind == 4 else (8, "d")
        assert size == n * width
        out[key] = ([d[0] for d in mine], [d[1] for d in mine], list(struct.unpack(">%d%s" % (n, letter), b[begin : begin + size])))
    return out


def draws(path):
    rows = list(csv.reader(x for x in open(path) if not x.startswith("#")))
    return rows[0], [[float(v) for v in r] for r in rows[1:]]


def same(a, b):
    return len(a) == len(b) and all(x == y or (math.isnan(x) and math.isnan(y)) for x, y in zip(a, b))


# Every array is the same in both forms, and .zmetadata says what the files say.
for run in ("nuts", "many", "pvi"):
    store = OUT + "/%s-zarr" % run
    meta = json.load(open(store + "/.zmetadata"))["metadata"]
    files = [os.path.relpath(os.path.join(d, f), store) for d, _, fs in os.walk(store) for f in fs if f.startswith(".z") and f != ".zmetadata"]
    check(sorted(files) == sorted(meta) and all(json.load(open(os.path.join(store, f))) == meta[f] for f in files), run + ": consolidated metadata")
    groups = sorted({f.split("/")[0] for f in files if "/" in f})
    good, detail = True, ""
    for g in groups:
        other = netcdf(OUT + "/%s-netcdf/%s.nc" % (run, g))
        names = sorted(d for d in os.listdir(os.path.join(store, g)) if not d.startswith("."))
        good = good and names == sorted(other)
        for n in names:
            a, b = zarr(store, g, n), other[n]
            if a[:2] != tuple(b[:2]) or not same(a[2], b[2]):
                good, detail = False, (g, n, a[:2], b[:2])
    check(good and "posterior" in groups, run + ": netCDF has what Zarr has", detail)

# Chains: the numbers of the CSV files, in their places.
store = OUT + "/nuts-zarr"
dims, shape, A = zarr(store, "posterior", "A")
check(dims == ["chain", "draw", "A_dim_0", "A_dim_1"] and shape == [3, 100, 2, 3], "A has its shape", (dims, shape))
good = True
stats = {s: zarr(store, "sample_stats", s)[2] for s in ("lp", "acceptance_rate", "step_size", "tree_depth", "n_steps", "diverging", "energy")}
log_lik, ll = zarr(store, "posterior", "log_lik")[2], zarr(store, "log_likelihood", "y")
for k in range(3):
    names, rows = draws(OUT + "/nuts/draws_%d.csv" % (k + 1))
    for i, row in enumerate(rows):
        at = k * 100 + i
        for p in range(2):
            for q in range(3):
                good = good and A[at * 6 + p * 3 + q] == row[names.index("A.%d.%d" % (p + 1, q + 1))]
        good = good and stats["lp"][at] == row[0] and stats["energy"][at] == row[6] and stats["diverging"][at] == row[5]
check(good, "draws of chains are in their places")
check(ll[0] == ["chain", "draw", "y_dim_0"] and ll[1] == [3, 100, 5] and all(abs(a - b) < 1e-9 * (1 + abs(b)) for a, b in zip(ll[2], log_lik)),
      "log_likelihood is that of the program's own log_lik")
check(zarr(store, "observed_data", "y")[2] == [1.5, 2, 0.5, 3, 2.25], "observed_data are the outcomes")
check(zarr(store, "posterior", "chain")[2] == [0, 1, 2] and zarr(store, "posterior_predictive", "draw")[2] == list(range(100)), "coordinates")

# An outcome that was simulated is of its own draw: (y - mu - A[1, 2]) / s is standard normal, draw by draw and over observations.
dims, shape, y = zarr(store, "posterior_predictive", "y")
mu, s = zarr(store, "posterior", "mu")[2], zarr(store, "posterior", "s")[2]
z = [(y[i * 5 + k] - mu[i] - A[i * 6 + 1]) / s[i] for i in range(300) for k in range(5)]
mean, square = sum(z) / len(z), sum(v * v for v in z) / len(z)
apart = sum(z[i * 5] * z[i * 5 + 1] for i in range(300)) / 300
again = sum(z[i * 5] * z[i * 5 + 5] for i in range(299)) / 299
check(shape == [3, 100, 5] and abs(mean) < 4 / len(z) ** 0.5 and abs(square - 1) < 4 * (2 / len(z)) ** 0.5 and abs(apart) < 4 / 300 ** 0.5 and abs(again) < 4 / 300 ** 0.5,
      "simulated outcomes are those of their draws", (shape, mean, square, apart, again))
dims, shape, mu = zarr(OUT + "/many-zarr", "posterior", "mu")
names, rows = draws(OUT + "/many/draws_2.csv")
per = len(rows) // 4
check(shape == [16, per] and all(mu[(4 + k // per) * per + k % per] == row[names.index("mu")] for k, row in enumerate(rows)), "chains that share a file are chains", shape)

# A fit: its draws, and nothing that loo() would take.
store = OUT + "/pvi-zarr"
names, rows = draws(OUT + "/pvi/draws.csv")
dims, shape, mu = zarr(store, "posterior", "mu")
check(shape == [1, 50] and all(mu[i] == row[names.index("mu")] for i, row in enumerate(rows[1:])), "draws of q are those of draws.csv", shape)
groups = os.listdir(store)
check("log_likelihood" not in groups and "log_lik" not in os.listdir(store + "/posterior") and "log_lik_q" in os.listdir(store + "/posterior")
      and zarr(store, "pointwise_log_density", "y")[1] == [1, 50, 5] and zarr(store, "posterior_predictive", "y")[1] == [1, 50, 5], "a PVI fit has nothing for loo()", groups)
check(json.load(open(store + "/.zattrs"))["pvi_score"] == "log", "attributes say what it is")
sys.exit(failed)
