// error: 7:11 expected an expression
// error: 8:17 expected `)` after the arguments
// error: 10:6 expected `=`, `~` or `;`
// error: 12:12 expected `]` after the size of `vector`
model {
  real x;
  x = 1 + ;
  x = max({1, 2};
  {
    x
  }
  vector[3 y;
}
