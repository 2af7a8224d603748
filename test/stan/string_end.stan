// error: 3:9 this string does not end on its line
// error: 4:17 expected `)`
model {
  print("no end);
}
