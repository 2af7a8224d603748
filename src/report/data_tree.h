/* data_tree.h: DataTree, named arrays in groups, as ArviZ and xarray keep what a run found; and the
 * forms in which it leaves: a Zarr store (zarr.c), netCDF files (netcdf.c).
 */
#ifndef PVI_DATA_TREE_H
#define PVI_DATA_TREE_H

#include "report/report.h"

enum { TREE_DIMS = 12 };

typedef struct {
  const char *name;
  size_t ndims, shape[TREE_DIMS];
  const char *dims[TREE_DIMS]; /* their names; one of the array's own name makes it a coordinate */
  const double *values;        /* row-major */
  bool whole;                  /* whole numbers below 2^31 */
} TreeArray;

typedef struct {
  const char *name;
  TreeArray *arrays;
  size_t n, cap;
} TreeGroup;

typedef struct {
  Arena *arena;
  TreeGroup *groups;
  size_t n, cap;
  const ReportKey *keys; /* what the whole has to say */
  size_t nkeys;
} DataTree;

/* Pointers to groups hold until the next one is made. */
TreeGroup *tree_group(DataTree *t, const char *name);
TreeArray *tree_array(DataTree *t, TreeGroup *g, const char *name, const double *values);
void tree_dim(TreeArray *a, const char *name, size_t length);
/* 0, 1, 2, ... along a dimension. */
void tree_coordinate(DataTree *t, TreeGroup *g, const char *name, size_t length);
size_t tree_count(const TreeArray *a); /* of its values */

/* A Zarr v2 store in a folder: one uncompressed chunk an array, consolidated metadata. */
void zarr_write(Ctx *c, const DataTree *t, const char *path);
/* A folder with one file (netCDF classic, 64-bit offsets) a group: group.nc. */
void netcdf_write(Ctx *c, const DataTree *t, const char *path);

#endif
