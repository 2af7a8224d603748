// error: 9:10 `x` is declared already, in line 7
// error: 11:12 `i` is declared already, in line 10
// error: 14:10 `y` is not declared
// error: 15:10 `f` is the name of a function
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
