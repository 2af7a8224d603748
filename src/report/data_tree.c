/* data_tree.c: building a DataTree (data_tree.h). */
#include "report/data_tree.h"

#include <string.h>

TreeGroup *tree_group(DataTree *t, const char *name) {
  PUSH(t->arena, t->groups, t->n, t->cap, ((TreeGroup){.name = name}));
  return &t->groups[t->n - 1];
}

TreeArray *tree_array(DataTree *t, TreeGroup *g, const char *name, const double *values) {
  PUSH(t->arena, g->arrays, g->n, g->cap, ((TreeArray){.name = name, .values = values}));
  return &g->arrays[g->n - 1];
}

void tree_dim(TreeArray *a, const char *name, size_t length) {
  a->dims[a->ndims] = name;
  a->shape[a->ndims++] = length;
}

void tree_coordinate(DataTree *t, TreeGroup *g, const char *name, size_t length) {
  double *values = NEW_ARRAY(t->arena, double, length + 1);
  for (size_t k = 0; k < length; k++) values[k] = (double)k;
  TreeArray *a = tree_array(t, g, name, values);
  a->whole = true;
  tree_dim(a, name, length);
}

size_t tree_count(const TreeArray *a) {
  size_t n = 1;
  for (size_t d = 0; d < a->ndims; d++) n *= a->shape[d];
  return n;
}
