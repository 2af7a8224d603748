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
check(grepl("scoer", said(pvi_fit(golf, data, scoer = "crps"))), "an unknown option is named")
check(nchar(said(pvi_fit("parameters { real x; } model { x ~ normal(0, y); }"))) > 10, "an error of the program is an R error")
check(stan_json(list(a = 1L, m = matrix(1:6, 2), v = c(0.5, Inf))) == "{\"a\":1,\n\"m\":[[1,3,5],[2,4,6]],\n\"v\":[0.5,\"Inf\"]}", "matrices are written by rows")

s <- pvi_sample(golf, data, seed = 3, method = "nuts", chains = 2, draws = 200)
check(nrow(s$draws) == 400 && s$rhat["log_sigma"] < 1.05, "draws of the posterior")
if (requireNamespace("posterior", quietly = TRUE)) {
  d <- posterior::as_draws(s)
  check(posterior::nchains(d) == 2 && "log_sigma" %in% posterior::variables(d), "posterior reads the draws")
  check(abs(posterior::summarise_draws(posterior::as_draws(fit))$mean[1] - mean(fit$draws[, 1])) < 1e-12, "posterior summarises q")
} else cat("ok - posterior reads the draws # SKIP r-cran-posterior is not installed\n")
check(any(grepl("varies", pvi_diagnose(golf, data, simulations = 19))), "diagnose")
quit(status = as.integer(failed > 0))
