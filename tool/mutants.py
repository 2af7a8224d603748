#!/usr/bin/env python3
"""mutants.py [--stale | NUMBER ...]: would the tests notice? Each mutant changes one line of a copy of the tree; the tests named with it run first, and
where they pass all others (make test). A mutant that passes everything survives: the suite lacks a test. Prints one line each and the count.
--stale only looks whether each is still a change of exactly one place, and names those that are not."""
import os, resource, shutil, subprocess, sys, tempfile

# file, what stands there, what takes its place, tests that should notice
MUTANTS = [
    # densities and their derivatives
    ("src/ir/ops.def", "(-z * c, z * c, -z * (a - b), K(-1.0)), (-3, 3, -3, 3, 0.3, 2, -1, 1))", "(-z * c, z * c, z * (a - b), K(-1.0)), (-3, 3, -3, 3, 0.3, 2, -1, 1))", "test_vm test_model"),
    ("src/ir/ops.def", "OP(POISSON_LOG, 3, SEL(v_eq(a, ZERO), ZERO, a * b) - v_exp(b) - c, ,", "OP(POISSON_LOG, 3, SEL(v_eq(a, ZERO), ZERO, a * b) - v_exp(b), ,", "test_model test_dists"),
    ("src/ir/ops.def", "vd w = (d + ONE) * z / (d + z * z);", "vd w = d * z / (d + z * z);", "test_vm test_model"),
    ("src/model/dists_wiener.c", "value = ADD(joined(E, &r, over_start(E, &q, later, side), p), log_share);", "value = joined(E, &r, over_start(E, &q, later, side), p);", "test_functions"),
    ("src/model/dists_real.c", "CDF(normal) { return M(LOG_PHI, COMPLEMENT(dist_standardise(E, a))); }", "CDF(normal) { return M(LOG_PHI, dist_standardise(E, a)); }", "test_dists test_functions"),
    # constraints
    ("src/model/constraint_vectors.c", "constrain_jacobian(E, ADD(log_x, log_1mz));", "constrain_jacobian(E, log_x);", "test_model test_constraints"),
    ("src/model/constraint_matrices.c", "if (j) constrain_jacobian(E, M(LOG, s));", "if (j > 1) constrain_jacobian(E, M(LOG, s));", "test_model test_constraints"),
    ("src/model/constraints.c", "if (lower && upper) return M(LOG, DIV(SUB(x, lower), SUB(upper, x)));", "if (lower && upper) return M(LOG, DIV(SUB(x, lower), SUB(upper, lower)));", "test_constraints"),
    # the split
    ("src/model/increments.c", "if (inline_density(E, e->user, args, e->loc, \"target\")) return true;", "", "test_people test_programs test_model"),
    ("src/run/problem.c", "if (guess && guess->n_obs) p->model = guess;", "if (guess && !guess->n_obs) p->model = guess;", "test_cli.sh"),
    # matrices, complex numbers, Fourier
    ("src/model/fun_fourier.c", "w.im->v[e] = sign * sin(angle);", "w.im->v[e] = sin(angle);", "test_complex"),
    ("src/num/spectrum.c", "A[(i + 1) * n + k] = t.c * y - conj(t.s) * x;", "A[(i + 1) * n + k] = t.c * y + conj(t.s) * x;", "test_complex"),
    ("src/model/fun_laplace.c", "return eval_as_likelihood(E, SUB(d.l, MUL(NUM(0.5), ADD(quadratic, log_det))));", "return eval_as_likelihood(E, SUB(d.l, MUL(NUM(0.5), log_det)));", "test_laplace"),
    # solvers
    ("src/vm/radau.c", "static const double newton_tolerance =\n    1e-2;", "static const double newton_tolerance =\n    1e3;", "test_ode"),
    ("src/vm/radau.c", "combine(s, error, error, s->h, (Terms){s->slopes, &w->rule->gamma, 1}, (Span){0, s->R, n});", "", "test_ode"),
    ("src/vm/solver.c", "double step = s->error[j] < 0.5 ? s->h[j] * 0.9 * s->factor[j] : s->h[j];", "double step = s->h[j] * 0.9 * s->factor[j] * 10;", "test_ode test_oracle"),
    # optimizer
    ("src/infer/optim_lbfgs.c", "if (!(sy > 1e-12 * la_norm(s, n) * la_norm(y, n)) || b->cap == 0) return;", "if (b->cap == 0) return;", "test_optim test_fit"),
    ("src/infer/optim_lbfgs.c", "y[i] = b->r->grad[i] - grad[i];", "y[i] = grad[i] - b->r->grad[i];", "test_optim test_fit"),
    ("src/infer/optim_lbfgs.c", "b->rho[b->next] = 1 / sy;", "b->rho[b->next] = 2 / sy;", "test_optim test_fit"),
    ("src/infer/stages.c", "if (!isfinite(stage->fresh))", "if (false)", "test_fit test_starts test_optim"),
    # files and runs
    ("src/report/file.c", "if (!f->error && fsync(f->fd) && errno != EINVAL && errno != EROFS) f->error = errno;", "", "test_report"),
    ("src/run/run_q.c", "if (!a || q_array_count(a) != p.rows * p.cols)", "if (!a)", "test_q test_cli.sh test_runs.sh"),
    ("src/run/folds.c", "for (size_t k = 0; k < f->count && from + k < d->n; k++) fold[r[from + k].obs] = (int)deal[k];", "for (size_t k = 0; k < f->count && from + k < d->n; k++) fold[r[from + k].obs] = (int)k;", "test_runs.sh"),
    ("src/num/stats.c", "fmax(squares - sum * sum / m, 0) / (m - 1) * m)", "fmax(squares - sum * sum / m, 0) / (m - 1))", "test_num test_runs.sh"),
    ("src/run/tune.c", "if (!x || !(worth_of(x, &t) > l.top + has_to_add(&l, x))) break;", "if (!x || !(worth_of(x, &t) > l.top - has_to_add(&l, x))) break;", "test_runs.sh"),
    ("src/run/proper.c", "return falls(l, k, 1) && falls(l, k, -1);", "return falls(l, k, 1) || falls(l, k, -1);", "test_cli.sh"),
    ("src/run/varies.c", "asked[k] = asked[k] && v[k].adjusted < LEVEL && !predicts_worse(&v[k]);", "asked[k] = asked[k] && v[k].adjusted < LEVEL;", "test_words.sh test_runs.sh"),
    # scores
    ("src/infer/describe.c", "size_t j = s->d->together ? k % s->draws->noise.M : lane_at(s, u);", "size_t j = 0;", "test_runs.sh test_score test_cli.sh"),
    ("src/num/stats.c", "double stat_sd(const double *x, size_t n) {", "double stat_sd(const double *x, size_t n) {\n  if (n > 1) n--;", "test_num test_report"),
    ("src/stan/sizes.c", "if (s->rest ? f->n < fixed : f->n != fixed) return false;", "if (f->n < fixed) return false;", "test_sizes test_functions"),
]


def limited():
    """A mutant may make a test run forever: that is noticed, too. Ten minutes of the processor are far more than any test takes."""
    resource.setrlimit(resource.RLIMIT_CPU, (600, 600))


def run(folder, *command):
    return subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limited, check=False).returncode == 0


def passes(folder, test):
    if test.endswith(".sh"):
        done = subprocess.run(["bash", "test/" + test], cwd=folder, capture_output=True, text=True, preexec_fn=limited, check=False)
        return done.returncode == 0 and "\nnot ok" not in "\n" + done.stdout
    return run(folder, "make", "-j2", "build/test/" + test) and run(folder, "build/test/" + test)


def places(folder, mutant):
    """The text of the mutant's file, and in how many places what it changes stands there."""
    with open(os.path.join(folder, mutant[0])) as f:
        text = f.read()
    return text, text.count(mutant[1])


def judge(folder, mutant):
    name, old, new, tests = mutant
    path = os.path.join(folder, name)
    text, count = places(folder, mutant)
    if count != 1:
        return "STALE: %d places" % count
    try:
        with open(path, "w") as f:
            f.write(text.replace(old, new))
        if not run(folder, "make", "-j2", "all"):
            return "does not compile"
        for test in tests.split():
            if not passes(folder, test):
                return "noticed by " + test
        return "noticed by the others" if not run(folder, "make", "test") else "SURVIVES"
    finally:
        with open(path, "w") as f:
            f.write(text)


def main():
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if sys.argv[1:] == ["--stale"]:
        stale = [f"{k:3} {m[0]}" for k, m in enumerate(MUTANTS, 1) if places(here, m)[1] != 1]
        sys.exit("\n".join(stale) or 0)
    wanted = [int(k) for k in sys.argv[1:]] or range(1, len(MUTANTS) + 1)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(here)) as parent:
        folder, survivors = os.path.join(parent, "tree"), 0
        shutil.copytree(here, folder, ignore=shutil.ignore_patterns(".git", "build-*"), symlinks=True)
        for k in wanted:
            verdict = judge(folder, MUTANTS[k - 1])
            survivors += verdict == "SURVIVES"
            print(f"{k:3} {MUTANTS[k - 1][0]:34} {verdict}", flush=True)
        print(f"{len(wanted)} mutants, {survivors} survive")


if __name__ == "__main__":
    main()
