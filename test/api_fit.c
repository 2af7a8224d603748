/* api_fit.c MODEL DATA NAME=VALUE ...: a fit through pvi.h, with the shared library, as `pvi fit`
 * makes it: what test_library.sh compares with the command line. */
#include "pvi.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  if (argc < 3) return PVI_STATUS_USAGE;
  pvi_context *c = pvi_open();
  pvi_options *o = pvi_options_new(c);
  pvi_model *m = NULL;
  pvi_run *r = NULL;
  int status = PVI_STATUS_OK;
  for (int k = 3; k < argc && !status; k++) {
    char *value = strchr(argv[k], '=');
    if (!value) return PVI_STATUS_USAGE;
    *value = 0;
    status = pvi_set(o, argv[k], value + 1);
  }
  if (!status) status = pvi_load(c, argv[1], argv[2], o, &m);
  if (!status) status = pvi_fit(c, m, o, NULL, &r);
  fputs(pvi_error(c), stderr);
  pvi_run_free(r);
  pvi_model_free(m);
  pvi_options_free(o);
  pvi_close(c);
  return status;
}
