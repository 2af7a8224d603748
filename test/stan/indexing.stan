// error: 13:16 2 indexes: too many for vector
// error: 14:16 an index must be int, array[] int or a range, but is real
// error: 15:12 1 index: too many for real
// error: 16:14 `.1` takes an item out of a tuple
// error: 17:12 this tuple has items .1 to .2
model {
  int i = 1; array[3] int idx; real r; vector[3] v; matrix[3, 3] m; array[2, 3] vector[4] a;
  tuple(int, real) t;
  real x1 = v[i] + m[i, i] + a[i, i, i];
  vector[2] x2 = v[1:2] + v[:2] + v[2:] + m[1:2, i] + v[idx];
  row_vector[3] x3 = m[i] + m[i, ] + m[i, :];
  array[2] vector[4] x4 = a[, 1];
  real bad1 =  v[i, i];
  real bad2 =v[r];
  real x5 =r[1];
  real x6 =  r.1;
  real x7 =t.3;
}
