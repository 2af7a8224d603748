// error: 11:7 cannot assign real to int
// error: 12:7 cannot assign vector to row_vector
// error: 14:3 `+` cannot join matrix and vector
// error: 15:8 cannot assign real to int
// error: 16:3 `.*=` is for containers
// error: 17:12 cannot assign tuple(real, int) to tuple(int, real)
model {
  int i; real r; vector[2] v; row_vector[2] w; matrix[2, 2] m;
  r = i;
  v += 1;
  i = r;
  w = v;
  m[1] = w;
  m += v;
  i /= 2.5;
  r .*= 2;
  (i, r) = (1.5, 2);
}
