// error: 4:7 `for` is a reserved word
// error: 5:8 `true` is a reserved word
data {
  int for;
  real true;
  real fine;
}
