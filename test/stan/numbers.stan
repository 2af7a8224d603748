// error: 5:10 the integer 3000000000 is larger than 2147483647
// error: 6:13 a name or number cannot begin with or end in `_`
// error: 7:12 stray character `.`
model {
  int a =3000000000;
  int b = 12_;
  real c = .e3;
}
