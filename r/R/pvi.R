# Fits and draws. Every option of the command line is an argument of the same name, with _ for -: pvi_fit(m, d, score = "crps", lambda = 0.1).
# `pvi fit --help` and doc/options.md list them.

# ---- arguments ----------------------------------------------------------------

# Named arguments as the texts that pvi_set takes; a vector sets a repeated option once for each value.
option_texts <- function(...) {
  given <- list(...)
  if (length(given) && (is.null(names(given)) || any(names(given) == "")))
    stop("options are named: pvi_fit(model, data, score = \"crps\")", call. = FALSE)
  text <- function(x) if (is.logical(x)) tolower(as.character(x)) else if (is.numeric(x)) format(x, digits = 17, trim = TRUE) else as.character(x)
  values <- lapply(given, function(x) vapply(x, text, ""))
  list(names = as.character(rep(gsub("_", "-", names(given)), lengths(values))), values = as.character(unlist(values)))
}

# A list as the JSON that Stan reads: arrays and matrices by rows.
stan_json <- function(x) {
  number <- function(v) {
    if (is.factor(v)) v <- as.integer(v)
    if (is.logical(v)) v <- as.integer(v)
    if (!is.numeric(v)) stop("data are numbers; this is ", class(v)[1], call. = FALSE)
    if (anyNA(v) && !is.double(v)) stop("Stan has no missing whole numbers", call. = FALSE)
    out <- format(v, digits = 17, trim = TRUE, scientific = NA)
    if (is.double(v)) {
      out <- vapply(v, function(e) {
        if (is.nan(e) || is.na(e)) return("\"NaN\"")
        if (is.infinite(e)) return(if (e > 0) "\"Inf\"" else "\"-Inf\"")
        if (e == round(e) && abs(e) < 2147483648) sprintf("%.0f", e) else sprintf("%.17g", e)
      }, "")
    }
    out
  }
  nest <- function(v, d) {
    if (length(d) <= 1) return(paste0("[", paste(v, collapse = ","), "]"))
    a <- array(v, d)
    rows <- lapply(seq_len(d[1]), function(i) nest(asplit(a, 1)[[i]], d[-1]))
    paste0("[", paste(rows, collapse = ","), "]")
  }
  value <- function(v) {
    if (is.data.frame(v)) v <- as.matrix(v)
    if (is.list(v)) return(paste0("[", paste(vapply(v, value, ""), collapse = ","), "]"))
    text <- number(v)
    if (!is.null(dim(v))) return(nest(text, dim(v)))
    if (length(text) == 1 && !inherits(v, "AsIs")) text else paste0("[", paste(text, collapse = ","), "]")
  }
  if (is.data.frame(x)) x <- c(as.list(x), list(N = nrow(x)))
  x <- x[vapply(x, function(v) is.numeric(v) || is.logical(v) || is.factor(v) || is.list(v), TRUE)]
  keys <- paste0("\"", names(x), "\"")
  paste0("{", paste(keys, vapply(x, value, ""), sep = ":", collapse = ",\n"), "}")
}

# A program is a file or its text; data are a file, a list, a data frame or NULL.
places <- function(model, data) {
  is_text <- length(model) > 1 || grepl("[{\n]", model[1])
  program_text <- if (is_text) paste(model, collapse = "\n") else NULL
  if (is.character(data) && length(data) == 1) {
    if (is_text) return(list(NULL, program_text, NULL, paste(readLines(data, warn = FALSE), collapse = "\n")))
    return(list(path.expand(model), NULL, path.expand(data), NULL))
  }
  data_text <- if (is.null(data)) NULL else stan_json(data)
  if (is.null(program_text)) program_text <- paste(readLines(model, warn = FALSE), collapse = "\n")
  list(NULL, program_text, NULL, data_text)
}

# theta.2.1 as posterior writes it: theta[2,1].
pretty_names <- function(dotted) {
  vapply(strsplit(dotted, ".", fixed = TRUE), function(p) if (length(p) == 1) p else paste0(p[1], "[", paste(p[-1], collapse = ","), "]"), "")
}

# ---- fits ----------------------------------------------------------------------

pvi_fit <- function(model, data = NULL, ..., ndraws = 1000) {
  p <- places(model, data)
  o <- option_texts(...)
  fit <- .Call(pvi_r_fit, p[[1]], p[[2]], p[[3]], p[[4]], o$names, o$values, as.double(ndraws))
  colnames(fit$draws) <- pretty_names(colnames(fit$draws))
  structure(fit, class = "pvi_fit")
}

print.pvi_fit <- function(x, ...) {
  cat(.Call(pvi_r_text, x$session))
  invisible(x)
}

# The JSON of summary.json, as text; jsonlite::fromJSON makes a list of it.
summary.pvi_fit <- function(object, ...) object$summary

as.matrix.pvi_fit <- function(x, ...) x$draws

# Predictions of the observations of the fit, or of a file or list of new data.
predict.pvi_fit <- function(object, newdata = NULL, ...) {
  o <- option_texts(...)
  file <- newdata
  if (!is.null(newdata) && !is.character(newdata)) {
    file <- tempfile(fileext = ".json")
    on.exit(unlink(file))
    writeLines(stan_json(newdata), file)
  }
  p <- .Call(pvi_r_predict, object$session, file, o$names, o$values)
  p$mean <- drop(p$mean)
  p$sd <- drop(p$sd)
  colnames(p$quantiles) <- paste0(100 * p$levels, "%")
  p
}

pvi_sample <- function(model, data = NULL, ...) {
  p <- places(model, data)
  o <- option_texts(...)
  fit <- .Call(pvi_r_sample, p[[1]], p[[2]], p[[3]], p[[4]], o$names, o$values)
  colnames(fit$draws) <- pretty_names(colnames(fit$draws))
  for (k in c("rhat", "ess_bulk", "ess_tail", "mcse")) fit[[k]] <- stats::setNames(drop(fit[[k]]), colnames(fit$draws))
  structure(fit, class = "pvi_posterior")
}

print.pvi_posterior <- function(x, ...) {
  cat("draws of the posterior:", x$chains, "chains,", nrow(x$draws), "draws;", x$verdict, "\n")
  invisible(x)
}

as.matrix.pvi_posterior <- function(x, ...) x$draws

# ---- posterior -----------------------------------------------------------------

as_draws_matrix.pvi_fit <- function(x, ...) posterior::as_draws_matrix(x$draws)
as_draws.pvi_fit <- as_draws_matrix.pvi_fit

as_draws_array.pvi_posterior <- function(x, ...) {
  each <- nrow(x$draws) / x$chains
  a <- array(x$draws, c(each, x$chains, ncol(x$draws)), list(NULL, NULL, colnames(x$draws)))
  posterior::as_draws_array(a)
}
as_draws.pvi_posterior <- as_draws_array.pvi_posterior

# ---- reports -------------------------------------------------------------------

# A program, and what pvi makes of it with its data; both are files.
pvi_check <- function(model, data = NULL, ...) {
  o <- option_texts(...)
  cat(.Call(pvi_r_report, "check", model, NULL, data, NULL, o$names, o$values))
}

# Which variables vary in the population: text, or with json = TRUE the JSON of it.
pvi_diagnose <- function(model, data = NULL, ...) {
  p <- places(model, data)
  o <- option_texts(...)
  structure(.Call(pvi_r_report, "diagnose", p[[1]], p[[2]], p[[3]], p[[4]], o$names, o$values), class = "noquote")
}

# Run folders, or programs and last their data, all of them files.
pvi_compare <- function(..., options = list()) {
  o <- do.call(option_texts, options)
  structure(.Call(pvi_r_compare, as.character(c(...)), o$names, o$values), class = "noquote")
}

pvi_version <- function() .Call(pvi_r_version)

# ---- brms ----------------------------------------------------------------------

# A run folder's draws.csv as a stanfit, as brms wants it: lp__ is the log joint density, and no column is left that is no variable of the program.
stanfit_of <- function(folder) {
  lines <- readLines(file.path(folder, "draws.csv"))
  head <- grepl("^#", lines)
  draws <- utils::read.csv(text = lines[!head], check.names = FALSE)
  draws$lp__ <- draws$log_p__
  draws <- draws[, !names(draws) %in% c("log_p__", "log_g__")]
  file <- tempfile("draws", fileext = ".csv")
  on.exit(unlink(file))
  writeLines(c(lines[head], paste(names(draws), collapse = ",")), file)
  utils::write.table(format(draws, digits = 17, trim = TRUE), file, append = TRUE, sep = ",", quote = FALSE, row.names = FALSE, col.names = FALSE)
  suppressWarnings(rstan::read_stan_csv(file)) # it misses the times of chains
}

# A model in brms' words: a brmsfit whose draws are those of q, for brms' predict, conditional_effects, pp_check and the like. What pvi says of it,
# with the names of brms' program (b, sd_1, z_1), is in $pvi. Arguments in ... are options of pvi; brm_args go to brms::brm.
pvi_brm <- function(formula, data, family = stats::gaussian(), prior = NULL, ..., ndraws = 1000, brm_args = list()) {
  for (needed in c("brms", "rstan"))
    if (!requireNamespace(needed, quietly = TRUE)) stop("pvi_brm needs the package ", needed, call. = FALSE)
  x <- do.call(brms::brm, c(list(formula, data = data, family = family, prior = prior, algorithm = "meanfield", empty = TRUE), brm_args))
  options <- list(...)
  if (is.null(options$out)) {
    options$out <- tempfile("pvi")
    on.exit(unlink(options$out, recursive = TRUE))
  }
  options$save <- "all"
  options$old_syntax <- TRUE # brms writes arrays as rstan reads them
  options$save_draws <- ndraws
  fit <- do.call(pvi_fit, c(list(as.character(brms::stancode(x)), unclass(brms::standata(x)), ndraws = ndraws), options))
  x$fit <- stanfit_of(options$out)
  x <- brms::rename_pars(x)
  x$pvi <- fit
  class(x) <- c("pvi_brmsfit", class(x))
  x
}

print.pvi_brmsfit <- function(x, ...) {
  cat("Predictive variational inference: these are draws of q, which describes the population\nfrom which predictions are made. x$pvi has the verdict.\n\n")
  NextMethod()
}

loo.pvi_brmsfit <- function(x, ...)
  stop("loo() must not be run on a fit of pvi: its draws are not from the posterior. Held-out scores are in x$pvi", call. = FALSE)
waic.pvi_brmsfit <- loo.pvi_brmsfit
