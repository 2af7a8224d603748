// error: 8:10 `x` is declared already, in line 6
// error: 10:12 `i` is declared already, in line 9
// error: 13:10 `y` is not declared
functions { real f(real a) { return a; } }
model {
  real x = 1;
  {
    real x = 2;
    for (i in 1:2) {
      for (i in 1:2) { }
    }
    { real y = 1; }
    x += y;
    real f;
  }
}
