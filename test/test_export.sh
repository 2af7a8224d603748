#!/usr/bin/env bash
# test_export.sh: `pvi export`: the bytes of Zarr stores and netCDF files against the files of the run, read with Python alone; and, where Debian's
# python3-xarray and python3-zarr are, by xarray. Speaks TAP.
set -uo pipefail
cd "$(dirname "$0")/.."
PVI=${PVI:-build/pvi}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. test/tap.sh

cat >"$dir/m.stan" <<'END'
data { int<lower=0> N; vector[N] y; }
parameters { real mu; matrix[2, 3] A; real<lower=0> s; }
transformed parameters { real twice = 2 * mu; }
model { to_vector(A) ~ normal(0, 1); mu ~ normal(0, 10); s ~ exponential(1); y ~ normal(mu + A[1, 2], s); }
generated quantities { vector[N] log_lik; for (n in 1:N) log_lik[n] = normal_lpdf(y[n] | mu + A[1, 2], s); }
END
echo '{"N": 5, "y": [1.5, 2, 0.5, 3, 2.25]}' >"$dir/d.json"
"$PVI" sample "$dir/m.stan" "$dir/d.json" --chains 3 --draws 100 --warmup 200 --out "$dir/nuts" --quiet
"$PVI" sample "$dir/m.stan" "$dir/d.json" --chains 16 --draws 50 --out "$dir/many" --quiet
"$PVI" fit "$dir/m.stan" "$dir/d.json" --lambda 0.1 --save-draws 50 --out "$dir/pvi" --quiet
for run in nuts many pvi; do
  for to in zarr netcdf; do
    "$PVI" export "$dir/$run" --to $to --out "$dir/$run-$to" >"$dir/said" && grep -q 'posterior' "$dir/said"
    check $? "$run goes to $to" "$(cat "$dir/said")"
  done
done
"$PVI" export "$dir/pvi" >"$dir/said" && [ -s "$dir/pvi/export.zarr/.zmetadata" ]
check $? "without --out it is in the run folder"
cat >"$dir/mix.stan" <<'END'
data { vector[4] y; }
parameters { real<lower=0, upper=1> p; }
model { for (n in 1:4) target += log_mix(p, normal_lpdf(y[n] | 0, 1), normal_lpdf(y[n] | 3, 1)); }
END
echo '{"y": [1, 2, 3, 4]}' >"$dir/mix.json"
"$PVI" sample "$dir/mix.stan" "$dir/mix.json" --chains 2 --draws 50 --warmup 100 --out "$dir/mix" --quiet
"$PVI" export "$dir/mix" >"$dir/said" && grep -q 'left out: outcomes of line 3 .* cannot be simulated' "$dir/said" && grep -q log_likelihood "$dir/said" && ! grep -q posterior_predictive "$dir/said"
check $? "outcomes that cannot be simulated are left out, and it says so" "$(cat "$dir/said")"
"$PVI" export "$dir/none" >/dev/null 2>"$dir/said"
[ $? -eq 3 ] && grep -q none "$dir/said"
check $? "no run, no export"
OUT=$dir python3 test/export_bytes.py || failed=1

for py in "${PYTHON:-python3}" /usr/bin/python3; do
  if "$py" -c 'import xarray, zarr, scipy' 2>/dev/null; then
    OUT=$dir "$py" - 2>"$dir/said" <<'END'
import os, xarray as xr
out = os.environ["OUT"]
for run, last in (("nuts", "log_likelihood"), ("nuts", "posterior_predictive"), ("many", "log_likelihood"), ("pvi", "posterior_predictive")):
    for group in ("posterior", "sample_stats", "observed_data", last):
        x = xr.open_zarr(out + "/%s-zarr" % run, group=group).load()
        y = xr.open_dataset(out + "/%s-netcdf/%s.nc" % (run, group), engine="scipy").load()
        assert x.equals(y) and len(x.data_vars), (run, group)
assert dict(xr.open_zarr(out + "/nuts-zarr", group="posterior").sizes) == {"chain": 3, "draw": 100, "A_dim_0": 2, "A_dim_1": 3, "log_lik_dim_0": 5}
END
    check $? "xarray reads both, and they are the same" "$(tail -n 4 "$dir/said")"
    exit $failed
  fi
done
echo "ok - xarray reads both, and they are the same # SKIP"
echo "# skip: no python3 with xarray, zarr and scipy"
exit $failed
