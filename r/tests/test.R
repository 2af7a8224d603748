# Speaks TAP. Arguments: the folder of the repository, and a run folder of the golf example (seed 3, lambda 0.1).
library(pvi)
args <- commandArgs(trailingOnly = TRUE)
golf <- file.path(args[1], "examples/golf/geometric.stan")
data <- file.path(args[1], "examples/golf/golf.csv")
failed <- 0
check <- function(ok, what) {
  cat(if (isTRUE(ok)) "ok" else "not ok", "-", what, "\n")
  if (!isTRUE(ok)) failed <<- failed + 1
}
said <- function(e) tryCatch({ force(e); "" }, error = conditionMessage)

fit <- pvi_fit(golf, data, seed = 3, lambda = 0.1)
lines <- readLines(file.path(args[2], "draws.csv"))
lines <- lines[!grepl("^#", lines)]
csv <- utils::read.csv(text = lines)
csv <- csv[-1, ] # the mean of q, as CmdStan has it
check(max(abs(csv$log_sigma - fit$draws[, "log_sigma"])) < 1e-7, "the draws are those of the command line")
check(fit$converged, "the fit converged")
check(grepl("\"objective\"", summary(fit)), "the summary is JSON")

putts <- utils::read.csv(data)
again <- pvi_fit(golf, as.list(c(putts, list(N = nrow(putts)))), seed = 3, lambda = 0.1)
check(identical(again$draws, fit$draws), "data as a list give the same fit")
p <- predict(fit)
check(length(p$mean) == nrow(putts) && all(p$quantiles[, 1] <= p$quantiles[, ncol(p$quantiles)]), "predictions of every observation")
check(max(abs(predict(fit, newdata = putts)$mean - p$mean)) < 1e-12, "predictions of the same data as a data frame")
check(identical(names(as.data.frame(p))[1:3], c("mean", "sd", "5%")) && nrow(as.data.frame(p)) == nrow(putts) && length(utils::capture.output(print(p))) >= 20, "and as a table")
text <- "data { int N; vector[N] y; } parameters { real a; } model { a ~ normal(0, 1); y ~ normal(a, 1); }"
check(length(predict(pvi_fit(text, list(N = 3, y = c(1, 2, 0)), lambda = 0.1), list(N = 2, y = c(1, 2)))$mean) == 2, "predictions for new data of a program in memory")
check(grepl("small.stan:", said(pvi_fit(file.path(args[3], "small.stan"), list(N = 3, y = "a")))), "errors name the program's file, though data are a list")
check(grepl("scoer", said(pvi_fit(golf, data, scoer = "crps"))), "an unknown option is named")
check(nchar(said(pvi_fit("parameters { real x; } model { x ~ normal(0, y); }"))) > 10, "an error of the program is an R error")
check(stan_json(list(a = 1L, m = matrix(1:6, 2), v = c(0.5, Inf))) == "{\"a\":1,\n\"m\":[[1,3,5],[2,4,6]],\n\"v\":[0.5,\"Inf\"]}", "matrices are written by rows")

s <- pvi_sample(golf, data, seed = 3, method = "nuts", chains = 2, draws = 1000)
check(nrow(s$draws) == 2000 && s$rhat["log_sigma"] < 1.05, "draws of the posterior")
if (requireNamespace("posterior", quietly = TRUE)) {
  d <- posterior::as_draws(s)
  check(posterior::nchains(d) == 2 && "log_sigma" %in% posterior::variables(d), "posterior reads the draws")
  check(abs(posterior::summarise_draws(posterior::as_draws(fit))$mean[1] - mean(fit$draws[, 1])) < 1e-12, "posterior summarises q")
} else cat("ok - posterior reads the draws # SKIP r-cran-posterior is not installed\n")
check(any(grepl("varies", pvi_diagnose(golf, data, simulations = 19))), "diagnose")

# what another command would take, or none, is refused by name
check(grepl("chains is not an option of fit, but of sample", said(pvi_fit(golf, data, chains = 4))), "an option of sample is none of pvi_fit")
check(grepl("did you mean \"chains\"", said(pvi_sample(golf, data, chain = 4))), "the nearest option is named")
check(grepl("lambda is not an option of predict", said(predict(fit, lambda = 1))), "and of predict")
check(grepl("here it is threads", said(pvi_sample(golf, data, cores = 4))), "cores, as rstan and brms have it, is answered")
check(grepl("of chains warmup and draws", said(pvi_sample(golf, data, iter = 2000))), "and iter")
check(grepl("not an option of fit, but of sample", said(pvi_fit(golf, data, warmup = 500))), "and warmup of a fit")
check(grepl("did you mean \"simulations\"", said(pvi_diagnose(golf, data, simulation = 9))), "and of pvi_diagnose")
check(grepl("did you mean \"methods\"", said(pvi_compare(golf, data, method = "vi"))) , "and of pvi_compare")
check(all(c("chains", "warmup") %in% pvi_options("sample")) && !"chains" %in% pvi_options("fit"), "the options of a command are listed")

# every kind of run gives the draws of the command line; folders are read again
columns <- function(file) {
  lines <- readLines(file)
  utils::read.csv(text = lines[!grepl("^#", lines)], check.names = FALSE)
}
small <- file.path(args[3], "small.stan")
values <- file.path(args[3], "small.json")
for (command in c("npe", "nre")) {
  f <- suppressWarnings(get(paste0("pvi_", command))(small, values, seed = 5, pairs = 512, epochs = 3, out = tempfile(command)))
  check(max(abs(columns(file.path(args[3], command, "draws.csv"))$a[-1] - f$draws[, "a"])) < 1e-7, paste("the draws of", command, "are those of the command line"))
  check(identical(pvi_read(f$folder)$draws, f$draws), paste("a folder of", command, "is read again"))
}
s <- pvi_sample(small, values, seed = 5, chains = 2, draws = 50, warmup = 50, method = "nuts", out = tempfile("sample"))
check(max(abs(unlist(lapply(1:2, function(k) columns(file.path(args[3], "sample", paste0("draws_", k, ".csv")))$a)) - s$draws[, "a"])) < 1e-7, "the draws of sample are those of the command line")
check(length(predict(s)$mean) == 3 && nchar(said(predict(pvi_sample(small, values, chains = 2, draws = 10, warmup = 10, method = "nuts")))) > 10, "predictions of the posterior, where it has a folder")
v <- pvi_fit(small, values, score = "elbo", out = tempfile("vi"))
check(grepl("log", pvi_compare(v, s$folder, width = 80)), "runs are compared")
page <- tempfile(fileext = ".html")
invisible(pvi_report(v, page = page))
check(file.exists(page), "a report is a page")
check(dir.exists(sub(":.*", "", pvi_export(v, to = "zarr", out = tempfile("z")))), "a run is exported")
check(grepl("bagged", pvi_bag(small, values, bags = 5)), "the bagged posterior")

# tuples, missing values, tables
f <- suppressWarnings(pvi_fit("parameters { real a; } model { a ~ normal(0, 1); } generated quantities { array[2] tuple(real, vector[2]) u = {(1, [a, 2]'), (2, [3, a]')}; }", score = "elbo"))
check(identical(colnames(f$draws)[c(2, 4, 7)], c("u[1]:1", "u[1]:2[2]", "u[2]:2[2]")) && identical(unname(f$draws[, "a"]), unname(f$draws[, "u[2]:2[2]"])), "items of tuples have names")
line <- "data { int N; int K; array[N] int<lower=1, upper=K> g; vector[N] y; } parameters { vector[K] a; } model { a ~ normal(0, 1); y ~ normal(a[g], 1); }"
table <- data.frame(g = factor(rep(c("u", "v"), 3)), y = c(1, NA, 2, 3, 4, 5), note = "x")
check(grepl("row 2 is NA; Stan has no missing values", said(pvi_fit(line, table, set = c(K = 2)))), "a missing value in a table is told with its row")
check(grepl("y[2] is missing; Stan has no missing values", said(pvi_fit(line, list(N = 6, K = 2, g = table$g, y = table$y))), fixed = TRUE), "and in a list with its place")
check(pvi_fit(line, stats::na.omit(table), set = c(K = 2), score = "elbo")$converged, "without it the table is fitted, factors count from 1")

# rstan's reader, and bayesplot on what it reads: every kind of run
run <- function(...) {
  folder <- tempfile("run")
  pvi_fit(golf, data, out = folder, ...)
  file.path(folder, "draws.csv")
}
if (requireNamespace("rstan", quietly = TRUE) && requireNamespace("bayesplot", quietly = TRUE)) {
  kinds <- list(PVI = list(lambda = 0.1), VI = list(score = "elbo"), particles = list(lambda = 0.1, family = "particles"), flow = list(lambda = 0.1, family = "spline"))
  for (kind in names(kinds)) {
    file <- do.call(run, kinds[[kind]])
    csv <- utils::read.csv(file, comment.char = "#")[-1, ]
    read <- suppressWarnings(rstan::read_stan_csv(file))
    check(max(abs(as.matrix(read)[, "log_sigma"] - csv$log_sigma)) < 1e-12, paste("rstan::read_stan_csv reads the draws of", kind))
    check(inherits(bayesplot::mcmc_areas(as.array(read), pars = "log_sigma"), "ggplot"), paste("bayesplot draws", kind))
  }
  folder <- tempfile("chains")
  s <- pvi_sample(golf, data, out = folder, chains = 3, draws = 100, method = "nuts")
  read <- rstan::read_stan_csv(Sys.glob(file.path(folder, "draws_*.csv")))
  check(identical(dim(as.array(read))[1:2], c(100L, 3L)) && rstan::get_num_divergent(read) == 0, "rstan::read_stan_csv reads chains, and their divergences")
  check(all(c("accept_stat__", "energy__") %in% bayesplot::nuts_params(read)$Parameter), "bayesplot reads what the sampler says")
} else cat("ok - rstan::read_stan_csv reads every kind of run # SKIP r-cran-rstan or r-cran-bayesplot is not installed\n")

# brms: its own predictions from the draws of q
if (requireNamespace("brms", quietly = TRUE) && requireNamespace("rstan", quietly = TRUE)) {
  set.seed(1)
  d <- data.frame(x = rnorm(60), g = rep(1:6, 10))
  d$y <- 1 + 0.5 * d$x + d$g / 5 + rnorm(60, 0, 0.5)
  b <- suppressMessages(pvi_brm(y ~ x + (1 | g), d, lambda = 1, seed = 2, ndraws = 2000))
  check(abs(brms::fixef(b)["x", "Estimate"] - mean(b$pvi$draws[, "b[1]"])) < 1e-9, "brms' coefficient is the mean of q's draws")
  mu <- stats::fitted(b)
  check(max(abs(mu[, "Estimate"] - predict(b$pvi)$mean) / (mu[, "Est.Error"] / sqrt(2000))) < 5, "brms' fitted values are pvi's predictive means, but for the noise of draws")
  check(inherits(brms::pp_check(b, ndraws = 5), "ggplot"), "pp_check")
  check(inherits(brms::conditional_effects(b), "brms_conditional_effects"), "conditional_effects")
  check(nrow(stats::predict(b, newdata = data.frame(x = c(-1, 1), g = 3))) == 2, "predict for new data")
  check(grepl("must not be run", said(brms::loo(b))), "loo() is refused")
} else cat("ok - brms takes the fit # SKIP r-cran-brms is not installed\n")
quit(status = as.integer(failed > 0))
