// error: 8:12 `g` with (int, int) is ambiguous
functions {
  real f(int x) { return 1; }       real f(real x) { return 2; }       real f(complex x) { return 3; }
  real g(int x, real y) { return 1; }
  real g(real x, int y) { return 2; }
}
model {
  real a = g(1, 2);
  real b = f(1) + f(1.5) + f(2i) + g(1, 2.5);
}
