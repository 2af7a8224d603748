# Fits and draws. Every option of the command line is an argument of the same name, with _ for -: pvi_fit(m, d, score = "crps", lambda = 0.1).
# `pvi fit --help` and doc/options.md list them.

# ---- arguments ----------------------------------------------------------------

# Named arguments as the texts that pvi_set takes; a vector sets a repeated option once for each value.
option_texts <- function(...) {
  given <- list(...)
  given <- given[!vapply(given, is.null, TRUE)]
  if (length(given) && (is.null(names(given)) || any(names(given) == "")))
    stop("options are named: pvi_fit(model, data, score = \"crps\")", call. = FALSE)
  if (!is.null(names(given$set))) given$set <- paste0(names(given$set), "=", given$set) # set = c(N = 19)
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
    out <- format(v, digits = 17, trim = TRUE, scientific = NA)
    out[is.na(v)] <- "null" # the library says which, where the program wants them
    if (is.double(v)) {
      out <- vapply(v, function(e) {
        if (is.nan(e)) return("\"NaN\"")
        if (is.na(e)) return("null")
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
  x <- x[vapply(x, function(v) is.numeric(v) || is.logical(v) || is.factor(v) || is.list(v), TRUE)]
  keys <- paste0("\"", names(x), "\"")
  paste0("{", paste(keys, vapply(x, value, ""), sep = ":", collapse = ",\n"), "}")
}

# A data frame as CSV: sizes then are its number of rows, and a cell that is no number is told with its row. Factors count from 1.
frame_csv <- function(x) {
  column <- function(v) {
    if (is.factor(v) || is.logical(v)) v <- as.integer(v)
    if (is.numeric(v)) ifelse(is.na(v) & !is.nan(v), "NA", sprintf("%.17g", v)) else paste0("\"", gsub("\"", "\"\"", as.character(v)), "\"")
  }
  cells <- vapply(x, column, character(nrow(x)))
  paste(c(paste(names(x), collapse = ","), apply(matrix(cells, nrow(x)), 1, paste, collapse = ",")), collapse = "\n")
}

data_text <- function(data) if (is.null(data)) NULL else if (is.data.frame(data)) frame_csv(data) else stan_json(data)

# A program is a file or its text; data are a file, a list, a data frame or NULL.
places <- function(model, data) {
  is_text <- length(model) > 1 || grepl("[{\n]", model[1])
  program_text <- if (is_text) paste(model, collapse = "\n") else NULL
  if (is.character(data) && length(data) == 1) {
    if (is_text) return(list(NULL, program_text, NULL, paste(readLines(data, warn = FALSE), collapse = "\n")))
    return(list(path.expand(model), NULL, path.expand(data), NULL))
  }
  if (is_text || is.null(data)) return(list(if (is_text) NULL else path.expand(model), program_text, NULL, if (is_text) data_text(data) else NULL))
  list(path.expand(model), NULL, data_file(data), NULL) # so that messages name the program's file, and predict finds it again
}

# Data in memory as a file, which is there until the session ends.
data_file <- function(data) {
  file <- tempfile("data", fileext = if (is.data.frame(data)) ".csv" else ".json")
  writeLines(data_text(data), file)
  file
}

# theta.2.1 as posterior writes it: theta[2,1]; items of tuples keep their colon: q.3:2.1 is q[3]:2[1].
pretty_names <- function(dotted) {
  brackets <- function(p) if (length(p) == 1) p else paste0(p[1], "[", paste(p[-1], collapse = ","), "]")
  vapply(strsplit(dotted, ":", fixed = TRUE), function(items) paste(vapply(strsplit(items, ".", fixed = TRUE), brackets, ""), collapse = ":"), "")
}

# ---- fits ----------------------------------------------------------------------

fit_by <- function(command, model, data, ndraws, given) {
  o <- do.call(option_texts, given)
  as_fit(.Call(pvi_r_fit, command, places(model, data), o$names, o$values, as.double(ndraws)))
}

as_fit <- function(fit) {
  colnames(fit$draws) <- pretty_names(colnames(fit$draws))
  structure(fit, class = "pvi_fit")
}

pvi_fit <- function(model, data = NULL, ..., ndraws = 1000) fit_by("fit", model, data, ndraws, list(...))

# The posterior by networks that learned from simulations: posterior and ratio estimation.
pvi_npe <- function(model, data = NULL, ..., ndraws = 1000) fit_by("npe", model, data, ndraws, list(...))
pvi_nre <- function(model, data = NULL, ..., ndraws = 1000) fit_by("nre", model, data, ndraws, list(...))

# A run folder again; and an interrupted fit, which goes on to what it would have become.
pvi_read <- function(folder, ndraws = 1000) as_fit(.Call(pvi_r_read, path.expand(folder), FALSE, as.double(ndraws)))
pvi_resume <- function(folder, ndraws = 1000) as_fit(.Call(pvi_r_read, path.expand(folder), TRUE, as.double(ndraws)))

# Names of the options of a command ("fit", "sample", "predict", ...): arguments of its function.
pvi_options <- function(command = "fit") gsub("-", "_", .Call(pvi_r_options, command))

print.pvi_fit <- function(x, ...) {
  cat(.Call(pvi_r_text, x$session))
  invisible(x)
}

# The JSON of summary.json, as text; jsonlite::fromJSON makes a list of it.
summary.pvi_fit <- function(object, ...) object$summary

as.matrix.pvi_fit <- function(x, ...) x$draws

# Predictions of the observations of the fit, or of a file, a list or a data frame of new data: a list, that prints as a table and is one by as.data.frame.
predict.pvi_fit <- function(object, newdata = NULL, ...) {
  o <- option_texts(...)
  file <- newdata
  if (!is.null(newdata) && !is.character(newdata)) {
    file <- data_file(newdata)
    on.exit(unlink(file))
  }
  p <- .Call(pvi_r_predict, object$session, file, o$names, o$values)
  for (of in c("mean", "sd", "levels")) p[[of]] <- drop(p[[of]])
  colnames(p$quantiles) <- paste0(100 * p$levels, "%")
  for (of in c("scores", "outcomes")) if (!length(p[[of]])) p[[of]] <- NULL
  structure(p, class = "pvi_predictions")
}

as.data.frame.pvi_predictions <- function(x, ...) {
  columns <- c(list(mean = x$mean, sd = x$sd), apply(x$quantiles, 2, identity, simplify = FALSE))
  if (!is.null(x$scores)) columns <- c(columns, apply(x$scores, 2, identity, simplify = FALSE))
  as.data.frame(columns, optional = TRUE)
}

print.pvi_predictions <- function(x, ..., rows = 20) {
  table <- as.data.frame(x)
  print(utils::head(table, rows), digits = 4)
  if (nrow(table) > rows) cat("... and", nrow(table) - rows, "more: as.data.frame() has all\n")
  invisible(x)
}

pvi_sample <- function(model, data = NULL, ...) {
  o <- option_texts(...)
  as_posterior(.Call(pvi_r_sample, places(model, data), NULL, o$names, o$values))
}

# Interrupted sampling goes on.
pvi_resume_sample <- function(folder) as_posterior(.Call(pvi_r_sample, NULL, path.expand(folder), character(), character()))

as_posterior <- function(fit) {
  colnames(fit$draws) <- pretty_names(colnames(fit$draws))
  for (k in c("rhat", "ess_bulk", "ess_tail", "mcse")) fit[[k]] <- stats::setNames(drop(fit[[k]]), colnames(fit$draws))
  structure(fit, class = "pvi_posterior")
}

# Predictions of the posterior's draws, of a run that has a folder.
predict.pvi_posterior <- function(object, newdata = NULL, ...) {
  if (is.null(object$folder)) stop("predictions are made from a run that has a folder: pvi_sample(..., out = \"folder\")", call. = FALSE)
  predict.pvi_fit(list(session = .Call(pvi_r_open, object$folder)), newdata, ...)
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

# A run is a folder, or a fit that has one (out = "folder").
folder_of <- function(x) {
  if (!inherits(x, "pvi_fit") && !inherits(x, "pvi_posterior")) return(path.expand(as.character(x)))
  if (is.null(x$folder)) stop("this needs a run that has a folder: out = \"folder\"", call. = FALSE)
  x$folder
}

# Commands that say something of files and folders: text, or with json = TRUE the JSON of it. Arguments without a name are places, the others options.
said_of <- function(command, ...) {
  given <- list(...)
  named <- if (is.null(names(given))) rep(FALSE, length(given)) else names(given) != ""
  o <- do.call(option_texts, given[named])
  structure(.Call(pvi_r_places_report, command, as.character(unlist(lapply(given[!named], folder_of))), o$names, o$values), class = "pvi_text")
}

print.pvi_text <- function(x, ...) {
  cat(x)
  invisible(x)
}

# A program, and what pvi makes of it with its data; both are files.
pvi_check <- function(model, data = NULL, ...) said_of("check", model, data, ...)

# Which variables vary in the population; and the posteriors of resampled data.
said_of_model <- function(command, model, data, given) {
  o <- do.call(option_texts, given)
  structure(.Call(pvi_r_model_report, command, places(model, data), o$names, o$values), class = "pvi_text")
}
pvi_diagnose <- function(model, data = NULL, ...) said_of_model("diagnose", model, data, list(...))
pvi_bag <- function(model, data = NULL, ...) said_of_model("bag", model, data, list(...))

# Runs; or programs and last their data, all of them files.
pvi_compare <- function(...) said_of("compare", ...)

# Runs as one HTML page (options: page, plots), and a run for ArviZ and xarray (options: to, out).
pvi_report <- function(...) said_of("report", ...)
pvi_export <- function(run, ...) said_of("export", run, ...)

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
  named <- paste(deparse(substitute(data)), collapse = " ")
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
  attr(x$data, "data_name") <- named
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
