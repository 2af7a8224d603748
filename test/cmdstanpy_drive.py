"""cmdstanpy_drive.py: CmdStanPy itself on a home of `pvi cmdstan`. Called by test_cmdstan.sh with HOME_DIR, D, OUT, INC and PVI."""
import json
import os
import subprocess

import cmdstanpy

out, data = os.environ["OUT"], json.load(open(os.environ["D"]))
cmdstanpy.set_cmdstan_path(os.environ["HOME_DIR"])
m = cmdstanpy.CmdStanModel(stan_file=os.path.join(out, "m.stan"), stanc_options={"include-paths": [os.environ["INC"]]})
fit = m.sample(data=data, seed=1, show_progress=False)
assert fit.draws().shape == (1000, 4, 21) and abs(fit.summary().loc["theta", "Mean"] - 0.25) < 0.02
assert "no problems" in fit.diagnose() or "Processing complete" in fit.diagnose()
one = m.sample(data=data, chains=2, seed=1, show_progress=False, force_one_process_per_chain=True, save_warmup=True, thin=2, metric="dense_e",
               inits=[{"theta": 0.3}, {"theta": 0.4}])
assert one.draws(inc_warmup=True).shape == (1000, 2, 21) and one.metric.shape == (2, 3, 3)
assert abs(m.optimize(data=data).optimized_params_dict["theta"] - 0.2) < 1e-6
assert m.variational(data=data, seed=1).variational_sample.shape == (1000, 17)
assert m.pathfinder(data=data, seed=1).draws().shape == (1000, 16)
assert m.laplace_sample(data=data, seed=1).draws().shape == (1000, 16)
assert m.generate_quantities(data=data, previous_fit=fit).stan_variable("yr").shape == (4000, 10)
assert abs(m.log_prob({"theta": 0.3, "b": [1, 2]}, data)["g_theta"][0] + 0.6) < 1e-6
try:
    m.sample(data={"N": 3, "y": [1]}, show_progress=False)
    raise SystemExit("an error was expected")
except RuntimeError as e:
    assert "Exception: 'y' is declared" in str(e)
pvi = os.environ["PVI"]
program = [os.path.join(out, "m.stan"), os.environ["D"], "--include", os.environ["INC"], "--quiet", "--out"]
subprocess.run([pvi, "sample"] + program + [out + "/run", "--chains", "4"], check=True)
assert cmdstanpy.from_csv(out + "/run/draws_*.csv").draws().shape[1] == 4
subprocess.run([pvi, "fit"] + program + [out + "/vi", "--score", "elbo"], check=True)
assert cmdstanpy.from_csv(out + "/vi/draws.csv").variational_sample.shape == (1000, 17)
