"""cmdstan_contract.py: the methods of a model executable as CmdStanPy and CmdStanR call them, their files as these read them.

The order of arguments is that of their command builders. Called by test_cmdstan.sh with HOME_DIR, M, FIXED, D and OUT; speaks TAP.
"""
import json
import math
import os
import re
import subprocess
import sys

M, FIXED, D, OUT = (os.environ[k] for k in ("M", "FIXED", "D", "OUT"))
failed = 0


def check(good, name, detail=""):
    global failed
    print(("ok - " if good else "not ok - ") + name)
    if not good:
        failed = 1
        print("# " + str(detail)[:2000].replace("\n", "\n# "))
    sys.stdout.flush()


def path(name):
    return os.path.join(OUT, name)


def run(args, exe=M, code=0, env=None):
    p = subprocess.run([exe] + args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, cwd=OUT)
    if code is not None and p.returncode != code:
        check(False, "exit code %s of %s" % (p.returncode, args), p.stdout)
    return p.stdout


def common(name, **more):
    out = ["id=%d" % more.get("id", 1), "random", "seed=%d" % more.get("seed", 7), "data", "file=" + D]
    if "init" in more:
        out.append("init=%s" % more["init"])
    return out + ["output", "file=" + path(name), "refresh=%d" % more.get("refresh", 100)] + more.get("output", [])


def read(name):
    """Settings, columns, rows before and behind the adaptation, and its lines: as the readers go through the file."""
    config, header, before, rows, adaptation = {}, None, [], [], []
    for line in open(path(name)):
        line = line.rstrip("\n")
        if line.startswith("#") and header is None:
            pair = line.replace("(Default)", "").lstrip(" #").split("=")
            if len(pair) == 2:
                config.setdefault(pair[0].strip(), pair[1].strip())
        elif line.startswith("#"):
            adaptation.append(line)
            if line == "# Adaptation terminated":
                before, rows = rows, []
        elif header is None:
            header = line.split(",")
        else:
            rows.append([float(x) for x in line.split(",")])
            assert len(rows[-1]) == len(header)
    return config, header, before, rows, adaptation


def column(table, name):
    k = table[1].index(name)
    return [r[k] for r in table[3]]


def mean(x):
    return sum(x) / len(x)


def near(x, y, tol):
    return abs(x - y) <= tol


# ---- sample ----
said = run(common("s.csv") + ["method=sample", "num_samples=2000", "num_warmup=500", "algorithm=hmc", "adapt", "engaged=1", "delta=0.9"])
t = read("s.csv")
check(t[0]["method"] == "sample" and t[0]["model"] == "m_model" and t[0]["num_samples"] == "2000" and t[0]["delta"] == "0.9"
      and t[0]["algorithm"] == "hmc" and t[0]["engine"] == "nuts" and t[0]["metric"] == "diag_e" and t[0]["seed"] == "7"
      and t[0]["max_depth"] == "10" and t[0]["save_warmup"] == "0", "sample: the settings", t[0])
check(t[1][:7] == "lp__ accept_stat__ stepsize__ treedepth__ n_leapfrog__ divergent__ energy__".split()
      and t[1][7:12] == ["theta", "b.1", "b.2", "t2", "yr.1"], "sample: the columns", t[1])
check(len(t[3]) == 2000 and near(mean(column(t, "theta")), 0.25, 0.02) and near(mean(column(t, "b.1")), 0, 0.15)
      and near(mean(column(t, "yr.3")), 0.25, 0.05) and all(near(2 * a, b, 1e-12) for a, b in zip(column(t, "theta"), column(t, "t2"))),
      "sample: draws of beta(3, 9)", mean(column(t, "theta")))
check(t[4][1].startswith("# Step size = ") and t[4][2] == "# Diagonal elements of inverse mass matrix:" and len(t[4][3].split(",")) == 3
      and re.match(r"#  Elapsed Time: [\d.]+ seconds \(Warm-up\)", t[4][5]), "sample: the adaptation", t[4])
lines = [x for x in said.split("\n") if x.startswith("Iteration:")]
check(lines[0] == "Iteration:    1 / 2500 [  0%]  (Warmup)" and lines[-1] == "Iteration: 2500 / 2500 [100%]  (Sampling)"
      and "Iteration:  501 / 2500 [ 20%]  (Sampling)" in lines and len(lines) == 27, "sample: progress", lines)
check("refresh = 100 (Default)" in said and "seconds (Total)" in said, "sample: settings and times are printed")
again = run(common("s2.csv") + ["method=sample", "num_samples=2000", "num_warmup=500", "algorithm=hmc", "adapt", "engaged=1", "delta=0.9"])
check(read("s2.csv")[3] == t[3], "sample: a seed gives the same draws")
run(common("s3.csv", id=2) + ["method=sample", "num_samples=2000", "num_warmup=500"])
other = read("s3.csv")
check(other[0]["id"] == "2" and other[3] != t[3] and column(other, "yr.1") != column(t, "yr.1"), "sample: another id, other draws")

said = run(common("w.csv", output=["sig_figs=6", "save_cmdstan_config=1", "diagnostic_file=" + path("dyn.csv"), "profile_file=" + path("p.csv")])
           + ["method=sample", "num_samples=100", "num_warmup=101", "save_warmup=1", "thin=3", "algorithm=hmc", "metric=dense_e",
              "stepsize=0.5", "engine=nuts", "max_depth=12", "adapt", "engaged=1", "init_buffer=20", "term_buffer=20", "window=30", "save_metric=1"])
t = read("w.csv")
check(len(t[2]) == 34 and len(t[3]) == 34 and t[0]["save_warmup"] == "1" and t[0]["thin"] == "3" and t[0]["max_depth"] == "12"
      and "# Elements of inverse mass matrix:" in t[4], "sample: warm-up kept, thinned, a dense metric", (len(t[2]), len(t[3]), t[4]))
j = json.load(open(path("w_config.json")))
check(j["method"]["value"] == "sample" and j["method"]["sample"]["num_warmup"] == 101 and j["method"]["sample"]["save_warmup"] is True
      and j["method"]["sample"]["algorithm"]["hmc"]["engine"]["nuts"]["max_depth"] == 12 and j["model_name"] == "m_model", "sample: config.json")
j = json.load(open(path("w_metric.json")))
check(j["metric_type"] == "dense_e" and len(j["inv_metric"]) == 3 and len(j["inv_metric"][0]) == 3 and j["stepsize"] > 0, "sample: metric.json")
dyn = read("dyn.csv")
check(dyn[1][7:] == ["theta", "b.1", "b.2", "g_theta", "g_b.1", "g_b.2"]
      and all(near(r[8], -r[11], 1e-4) for r in dyn[3]), "sample: the diagnostic file has points and gradients", dyn[1])
check(not os.path.exists(path("p.csv")), "sample: a program without profiles has no file of them")

json.dump({"inv_metric": [1, 2, 3]}, open(path("metric.json"), "w"))
json.dump({"theta": 0.3}, open(path("init_1.json"), "w"))
json.dump({"theta": 0.9, "b": [1, 2]}, open(path("init_2.json"), "w"))
json.dump({}, open(path("init.json"), "w"))
said = run(common("c.csv", init=path("init.json")) + ["method=sample", "num_samples=1", "num_warmup=0", "algorithm=hmc", "stepsize=1e-9", "metric=diag_e",
                                                       "metric_file=" + path("metric.json"), "adapt", "engaged=0", "num_chains=2"])
one, two = read("c_1.csv"), read("c_2.csv")
check(near(column(one, "theta")[0], 0.3, 1e-5) and near(column(two, "theta")[0], 0.9, 1e-5) and near(column(two, "b.2")[0], 2, 1e-5)
      and two[0]["id"] == "2" and all(near(float(x), k + 1, 1e-12) for k, x in enumerate(one[4][3].strip("# ").split(", "))) and "# Step size = 1e-09" in one[4] and "Chain [2] Iteration: 1 / 1 [100%]  (Sampling)" in said,
      "sample: two chains, inits, metric and step as given", said)
run(common("u.csv", init=0) + ["method=sample", "num_samples=50", "num_warmup=30", "algorithm=hmc", "metric=unit_e"])
check("# No free parameters for unit metric" in read("u.csv")[4], "sample: a unit metric")
said = run(["id=1", "random", "seed=3", "output", "file=" + path("f.csv"), "method=sample", "num_samples=1000", "algorithm=hmc", "adapt", "engaged=1"], exe=FIXED)
t = read("f.csv")
check("running fixed_param sampler" in said and t[0]["algorithm"] == "fixed_param" and t[1] == ["lp__", "accept_stat__", "z"]
      and near(mean(column(t, "z")), 1, 0.25) and t[0]["model"] == "other_model" and "Adaptation" not in "".join(t[4]), "sample: no parameters", t[4])

# ---- optimize, laplace ----
said = run(common("o.csv") + ["method=optimize", "algorithm=lbfgs"])
t = read("o.csv")
check(t[1][:2] == ["lp__", "theta"] and near(t[3][0][1], 0.2, 1e-6) and len(t[3]) == 1 and "Optimization terminated normally" in said
      and "Initial log joint probability = " in said, "optimize: the maximum of the likelihood is 1/5", t[3])
run(common("oj.csv") + ["method=optimize", "jacobian=1", "iter=200"])
t = read("oj.csv")
check(near(t[3][0][1], 0.25, 1e-6) and t[0]["jacobian"] == "1", "optimize: with the Jacobian it is 1/4", t[3])
run(common("oi.csv") + ["method=optimize", "algorithm=bfgs", "save_iterations=1"])
t = read("oi.csv")
check(len(t[3]) > 2 and t[3][-1][0] >= t[3][0][0] and near(t[3][-1][1], 0.2, 1e-6), "optimize: iterations are kept", len(t[3]))
run(common("l.csv") + ["method=laplace", "mode=" + path("oj.csv"), "draws=4000"])
t = read("l.csv")
logit = [math.log(x / (1 - x)) for x in column(t, "theta")]
sd = math.sqrt(mean([(x - math.log(1 / 3)) ** 2 for x in logit]))
check(t[1][:3] == ["log_p__", "log_q__", "theta"] and near(sd, 1 / math.sqrt(12 * 0.25 * 0.75), 0.03), "laplace: the curvature of logit theta", sd)
z = [(x - math.log(1 / 3)) * math.sqrt(2.25) for x in logit]
want = [0.5 * math.log(2.25) - 1.5 * math.log(2 * math.pi) - 0.5 * (a * a + b * b + c * c) for a, b, c in zip(z, column(t, "b.1"), column(t, "b.2"))]
check(all(near(a, b, 1e-4) for a, b in zip(want, column(t, "log_q__"))), "laplace: log q is that of the normal distribution")

# ---- variational, pathfinder ----
said = run(common("v.csv") + ["method=variational", "algorithm=fullrank", "adapt", "engaged=1", "iter=50", "output_samples=500"])
t = read("v.csv")
check(t[1][:4] == ["lp__", "log_p__", "log_g__", "theta"] and len(t[3]) == 501 and t[3][0][:3] == [0, 0, 0] and t[0]["algorithm"] == "fullrank"
      and near(mean(column(t, "theta")[1:]), 0.25, 0.03) and "# Stepsize adaptation complete." in t[4] and "# eta = 1" in t[4], "variational", t[4])
run(common("v0.csv") + ["method=variational", "output_samples=0"])
check(len(read("v0.csv")[3]) == 1, "variational: the mean alone")
run(["random", "seed=3", "data", "file=" + D, "output", "file=" + path("pf.csv"), "method=pathfinder", "num_psis_draws=800", "num_paths=2", "num_draws=900"])
t = read("pf.csv")
check(t[1][:3] == ["lp_approx__", "lp__", "theta"] and len(t[3]) == 800 and near(mean(column(t, "theta")), 0.25, 0.02)
      and t[0]["num_paths"] == "2", "pathfinder: resampled draws are of the posterior", mean(column(t, "theta")))
run(["random", "seed=3", "data", "file=" + D, "output", "file=" + path("p1.csv"), "method=pathfinder", "num_paths=1", "num_draws=77", "psis_resample=0", "calculate_lp=0"])
t = read("p1.csv")
check(len(t[3]) == 77 and sum(math.isnan(x) for x in column(t, "lp__")) == 77 - 25, "pathfinder: one path, no densities but those of the ELBO's draws")
for k, theta in ((1, 0.3), (2, 1.5)):
    json.dump({"theta": theta, "b": [0, 0]}, open(path("start_%d.json" % k), "w"))
said = run(["random", "seed=3", "data", "file=" + D, "init=%s,%s" % (path("start_1.json"), path("start_2.json")), "output", "file=" + path("p2.csv"), "method=pathfinder", "num_paths=2"])
check("Path [2] :Exception: Bounded variable is 1.5" in said and len(read("p2.csv")[3]) == 1000, "pathfinder: a start out of bounds is told, the other path goes on", said)

said = run(["random", "seed=9", "data", "file=" + D, "output", "file=" + path("pp.csv"), "method=pathfinder", "num_paths=2", "num_draws=30", "save_single_paths=1"])
check(all(len(read("pp_path_%d.csv" % p)[3]) == 30 and os.path.exists(path("pp_path_%d.json" % p)) for p in (1, 2)), "pathfinder: a file for each path", said)

# ---- generate_quantities, log_prob, diagnose ----
said = run(["id=1", "random", "seed=9", "data", "file=" + D, "output", "file=" + path("g.csv"), "method=generate_quantities", "fitted_params=" + path("s.csv")])
t = read("g.csv")
check(t[1] == ["yr.%d" % k for k in range(1, 11)] and len(t[3]) == 2000 and near(mean(column(t, "yr.1")), 0.25, 0.05), "generate_quantities", said)
said = run(["data", "file=" + D, "output", "file=" + path("g2.csv"), "method=generate_quantities", "fitted_params=" + path("f.csv")], code=1)
check("Exception: Mismatch between model and fitted_parameters csv" in said and "theta" in said, "generate_quantities: another model's draws are refused", said)
json.dump({"theta": 0.3, "b": [1, 2]}, open(path("at.json"), "w"))
likelihood = 2 * math.log(0.3) + 8 * math.log(0.7) - 2.5 - math.log(2 * math.pi)
for jacobian in (1, 0):
    run(["log_prob", "constrained_params=" + path("at.json"), "jacobian=%d" % jacobian, "data", "file=" + D, "output", "file=" + path("lp.csv")])
    t = read("lp.csv")
    check(t[1] == ["lp__", "g_theta", "g_b.1", "g_b.2"] and near(t[3][0][0], likelihood + jacobian * math.log(0.21), 1e-9)
          and near(t[3][0][1], 2 - 10 * 0.3 + jacobian * (1 - 0.6), 1e-9) and near(t[3][0][3], -2, 1e-9), "log_prob, jacobian=%d" % jacobian, t[3])
json.dump({"params_r": [[math.log(3 / 7), 1, 2], [0, 0, 0]]}, open(path("un.json"), "w"))
run(["log_prob", "unconstrained_params=" + path("un.json"), "data", "file=" + D, "output", "file=" + path("lp.csv")])
t = read("lp.csv")
check(len(t[3]) == 2 and near(t[3][0][0], likelihood + math.log(0.21), 1e-9), "log_prob at unconstrained points", t[3])
said = run(common("diag.csv") + ["method=diagnose", "test=gradient", "epsilon=1e-6", "error=1e-4"])
text = open(path("diag.csv")).read()
rows = [x.split() for x in text.split("param idx")[1].split("\n")[1:] if x.strip("# ")]
check("Log probability=" in text and len(rows) == 3 and all(near(float(r[3]), float(r[4]), 1e-4) for r in rows) and "0 of 3 derivatives differ" in said, "diagnose", text)

# ---- stansummary, diagnose ----
tools = os.path.join(os.environ["HOME_DIR"], "bin")
p = subprocess.run([tools + "/stansummary", "--percentiles= 5,50,95", "--sig_figs=6", "--csv_filename=" + path("sum.csv"), path("s.csv"), path("s3.csv")])
rows = [x.split(",") for x in open(path("sum.csv")).read().split("\n")]
theta = [r for r in rows if r[0] == '"theta"'][0]
check(p.returncode == 0 and rows[0] == ["name"] + ['"%s"' % x for x in ("Mean", "MCSE", "StdDev", "5%", "50%", "95%", "N_Eff", "N_Eff/s", "R_hat")]
      and near(float(theta[1]), 0.25, 0.015) and near(float(theta[3]), math.sqrt(3 * 9 / 12 ** 2 / 13), 0.01) and near(float(theta[-1]), 1, 0.01), "stansummary", theta)
said = subprocess.run([tools + "/diagnose", path("s.csv"), path("s3.csv")], stdout=subprocess.PIPE, text=True).stdout
check("No divergent transitions found." in said and "Treedepth satisfactory for all transitions." in said and "no problems detected" in said, "diagnose of draws", said)

# ---- what is wrong is told in CmdStan's words ----
for args, words in ((["method=sample", "num_sample=3"], "num_sample=3 is either mistyped or misplaced."),
                    (["method=sample", "num_sample=3"], "method=sample num_samples"),
                    (["method=sample", "num_samples=-3"], '-3 is not a valid value for "num_samples"'),
                    (["method=sample", "adapt", "delta=2"], '2 is not a valid value for "delta"'),
                    (["method=sleep"], 'sleep is not a valid value for "method"'),
                    (["id=1"], "A method must be specified!"),
                    (["data", "file=no-such.json", "method=sample"], "Exception: "),
                    (["method=sample"], "Exception: "),
                    (["data", "file=" + D, "init=no-such.json", "method=sample"], "Exception: "),
                    (["data", "file=" + D, "method=log_prob"], "No input parameter files provided"),
                    (["data", "file=" + D, "output", "file=/no/such/dir/x.csv", "method=optimize"], "Exception: cannot write")):
    said = run(args, code=1)
    check(words in said, "%s: %s" % (" ".join(args).replace(OUT, ""), words), said)
check("usage: MODEL" in run(["help"]) and re.search(r"num_psis_draws=<int>\n *Defaults to 1000", run(["help-all"])), "help")
sys.exit(failed)
