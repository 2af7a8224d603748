// error: 10:7 `a` is an argument
// error: 13:3 `N` is declared in the data block
// error: 14:18 `i` is a loop's variable
// error: 15:3 `p` is declared in the parameters block
// error: 17:3 cannot assign to a part of a slice
// error: 18:7 `x` is assigned to twice
// error: 19:5 this reads `k`
functions {
  void f(real a) {
      a = 1;
  } }
data { int N; } parameters { real p; } model {
  N = 2;
  for (i in 1:N) i = 2;
  p = 3;
  vector[9] v; real x; array[2] int k;
  v[1:3][1] = 2;
  (x, x) = (1, 2);
    k[k[1]] = 2;
  (x, v[2]) = (1, 2);
}
